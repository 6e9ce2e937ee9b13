#pragma once

#include <string>

#include "device/cuda/stream.h"

namespace monograph::device::cuda {

struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
};

// Machine code on the GPU.
class Module {
 public:
  // UserError when the code is for another GPU.
  Module(ContextPtr context, const std::string& cubin);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // InternalError when there is none of that name. `shared_bytes`: the most that launches ask for.
  CUfunction function(const std::string& name, int64_t shared_bytes = 0) const;

 private:
  ContextPtr context_;
  CUmodule module_ = nullptr;
};

// `arguments`: the address of each argument's value.
void launch(const Stream& stream, CUfunction function, const LaunchShape& shape, void** arguments);

}  // namespace monograph::device::cuda
