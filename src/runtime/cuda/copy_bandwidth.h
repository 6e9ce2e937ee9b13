#pragma once

#include "device/cuda/memory.h"

namespace monograph::runtime {

// Bytes read plus bytes written a second by a large copy within the GPU: the ceiling of kernels
// that move memory. 0 when the GPU has no room for two buffers of a few times its L2 cache.
double measure_gpu_copy_bandwidth(const device::cuda::ContextPtr& context);

}  // namespace monograph::runtime
