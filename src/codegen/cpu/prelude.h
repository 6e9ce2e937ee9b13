#pragma once

#include <string_view>

namespace monograph::codegen {

// What every generated translation unit begins with: scalar functions, storage types, random
// numbers. It includes nothing, so that a unit compiles in a fraction of a second.
std::string_view prelude();

}  // namespace monograph::codegen
