// AVX2: 16 registers of 8 floats.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "runtime/cpu/attention/kernel.h"

#ifdef __x86_64__
namespace monograph::runtime::attention {
#pragma GCC push_options        // NOLINT: g++ only
#pragma GCC target("avx2,fma")  // NOLINT: g++ only
namespace {
constexpr int kVectorBytes = 32, kTileRows = 6, kTileColumns = 2;
#include "runtime/cpu/attention/backward.inc"
constexpr Kernel kKernel{"avx2", kBlock, forward, delta, backward, sum_parts};
}  // namespace
#pragma GCC pop_options  // NOLINT: g++ only

const Kernel* avx2_kernel() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kKernel : nullptr;
}

}  // namespace monograph::runtime::attention
#else
namespace monograph::runtime::attention {
const Kernel* avx2_kernel() {
  return nullptr;
}
}  // namespace monograph::runtime::attention
#endif
