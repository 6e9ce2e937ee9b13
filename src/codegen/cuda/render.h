#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/device_spec.h"
#include "ir/loop/loop.h"
#include "ir/program/kernel_image.h"

namespace monograph::codegen::cuda {

struct RenderedKernel {
  std::string source;  // one or two functions; they go after prelude()
  std::vector<ir::KernelLaunch> launches;
};

// Prints a Loop as CUDA C++: extern "C" functions `name` and, where blocks' sums are added up or
// scalars stored, `name`_finish. Their parameters are the Loop's buffers. docs/cuda.md says how.
// InternalError for a Loop that is not well formed or whose row is too long for column sums.
RenderedKernel render(const ir::Loop& loop, std::string_view name, const ir::DeviceSpec& device);

}  // namespace monograph::codegen::cuda
