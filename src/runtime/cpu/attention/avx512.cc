// AVX-512: 32 registers of 16 floats.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "runtime/cpu/attention/kernel.h"

#ifdef __x86_64__
namespace monograph::runtime::attention {
#pragma GCC push_options                                           // NOLINT: g++ only
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")  // NOLINT: g++ only
namespace {
constexpr int kVectorBytes = 64, kTileRows = 8, kTileColumns = 2;
#include "runtime/cpu/attention/backward.inc"
constexpr Kernel kKernel{"avx512", kBlock, forward, delta, backward, sum_parts};
}  // namespace
#pragma GCC pop_options  // NOLINT: g++ only

const Kernel* avx512_kernel() {
  const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return runs ? &kKernel : nullptr;
}

}  // namespace monograph::runtime::attention
#else
namespace monograph::runtime::attention {
const Kernel* avx512_kernel() {
  return nullptr;
}
}  // namespace monograph::runtime::attention
#endif
