#pragma once

#include <string_view>

namespace monograph::codegen::cuda {

// The CUDA C++ that generated kernels begin with; it includes nothing.
std::string_view prelude();

}  // namespace monograph::codegen::cuda
