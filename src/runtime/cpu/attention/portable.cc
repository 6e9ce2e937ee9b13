// Any processor: SSE2 or NEON.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "runtime/cpu/attention/kernel.h"

namespace monograph::runtime::attention {
namespace {
constexpr int kVectorBytes = 16, kTileRows = 6, kTileColumns = 2;
#include "runtime/cpu/attention/backward.inc"
constexpr Kernel kKernel{"portable", kBlock, forward, delta, backward, sum_parts};
}  // namespace

const Kernel& portable_kernel() {
  return kKernel;
}

}  // namespace monograph::runtime::attention
