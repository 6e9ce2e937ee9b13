#pragma once

#include <string>
#include <string_view>

namespace monograph::diagnose {

// Appends text as a quoted JSON string; bytes that are no valid UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace monograph::diagnose
