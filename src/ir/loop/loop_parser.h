#pragma once

#include <string_view>

#include "ir/loop/loop.h"

namespace monograph::ir {

// Reads the text form of a Loop (Loop::str(), docs/loop.md) and verifies it. UserError
// "source:line:column: found ..., expected ..." when the text is not of the form; InternalError of
// verify() when the loop is not well formed.
Loop parse_loop(std::string_view text, std::string_view source = "loop");

}  // namespace monograph::ir
