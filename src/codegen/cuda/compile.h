#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda/nvrtc.h"
#include "ir/device_spec.h"
#include "ir/loop/loop.h"
#include "ir/program/kernel_image.h"

namespace monograph::codegen::cuda {

struct CompileOptions {
  std::string cache_directory = {};  // see cache_directory()
  int num_jobs = 0;                  // compilations at once; 0: one a core
};

// One a Loop given, in order; equal Loops share theirs.
struct CompiledKernels {
  std::vector<ir::KernelImage> images;
  std::vector<std::string> sources;                 // where the source of each lies
  std::vector<std::vector<FunctionUse>> functions;  // of each, a launch each
  std::vector<int64_t> compile_ns_of;               // of each, now or when it came into the cache
  int num_distinct = 0;
  int num_from_cache = 0;             // of the distinct ones
  int64_t compile_ns = 0;             // wall time, all of it
  std::vector<std::string> warnings;  // about the cache
  std::map<std::string, int> misses;  // why kernels were not in it, and how many
};

// Compiles Loops by NVRTC to machine code for device.architecture; no GPU and no driver is needed.
// Those in the kernel cache are not compiled again. UserError when NVRTC cannot be opened or
// nothing can be written; InternalError with the compiler's words when it refuses the source.
CompiledKernels compile_loops(std::span<const ir::Loop> loops, const ir::DeviceSpec& device,
                              const CompileOptions& options = {});

}  // namespace monograph::codegen::cuda
