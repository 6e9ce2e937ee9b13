#pragma once

#include <string>

namespace monograph::device::cuda {

// Compiles CUDA C++ to machine code for an architecture ("sm_90"). Needs no GPU. UserError when
// there is no NVRTC library; InternalError with the compiler's log when the source is wrong.
std::string compile_cubin(const std::string& source, const std::string& architecture);

}  // namespace monograph::device::cuda
