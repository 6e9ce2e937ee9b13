#pragma once

#include <cstdint>
#include <string_view>

namespace monograph::diagnose {

// Launches of kernels, generated or of libraries, in the code that Inductor wrote.
std::int64_t count_launches(std::string_view code);

// Calls in a printed graph of ATen operators that compute: neither views nor the unpacking of
// results.
std::int64_t count_nodes(std::string_view graph);

}  // namespace monograph::diagnose
