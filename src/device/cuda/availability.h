#pragma once

#include <string>

namespace monograph::device::cuda {

// Empty when this machine has a GPU that we can use; otherwise, in one line, what is missing.
std::string why_no_gpu();

}  // namespace monograph::device::cuda
