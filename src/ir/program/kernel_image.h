#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace monograph::ir {

// One launch of a function of a kernel's image.
struct KernelLaunch {
  std::string entry;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;  // dynamic; above 48 KiB the function's limit must be raised first
};

// The machine code of one kernel of a Program for a GPU. The launches are done in order on one
// stream. Each takes the device addresses of the Loop's buffers, in order: one pointer a buffer.
struct KernelImage {
  std::shared_ptr<const std::string> cubin;  // kernels compiled together share one
  std::vector<KernelLaunch> launches;
};

}  // namespace monograph::ir
