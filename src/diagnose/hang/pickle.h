#pragma once

#include <string>
#include <string_view>

namespace monograph::diagnose {

// True when the first bytes are those of a pickle (protocol 2 or later), which JSON and text never
// are.
bool looks_like_pickle(std::string_view head);

// Turns a pickle made of None, booleans, numbers, strings, lists, tuples and dicts into JSON text;
// that is all a flight recorder dump holds. Nothing is ever executed or imported: an opcode outside
// the small set, a reference to something not yet built, or a value that contains itself is a
// UserError naming the offset.
std::string pickle_to_json(std::string_view bytes);

}  // namespace monograph::diagnose
