#include "runtime/cpu/copy_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "runtime/cpu/aligned_memory.h"

namespace monograph::runtime {

double measure_copy_bandwidth() {
  constexpr int64_t kElements = int64_t{1} << 24;  // 64 MB a side
  constexpr int kRounds = 5;
  const AlignedMemory from(kElements * 4), to(kElements * 4);
  const float* const source = reinterpret_cast<const float*>(from.data());
  float* const target = reinterpret_cast<float*>(to.data());
  double best = 0;
  for (int round = 0; round <= kRounds; ++round) {  // the first one maps the pages
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < kElements; ++i) target[i] = source[i] + 1.0f;  // not turned into memcpy
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    if (round > 0) best = std::max(best, static_cast<double>(2 * kElements * 4) / time.count());
  }
  return best;
}

}  // namespace monograph::runtime
