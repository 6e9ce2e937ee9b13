#include "runtime/cpu/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace monograph::runtime {
namespace {

constexpr int kBinBits = 12;

// Ascends with the number; NaN last. +0 and -0 are equal.
uint32_t key_of(float x) {
  if (std::isnan(x)) return UINT32_MAX;
  const auto bits = std::bit_cast<uint32_t>(x == 0 ? 0.0F : x);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

uint32_t bin_of(uint32_t key) {
  return key >> (32 - kBinBits);
}

}  // namespace

void TopK::run(std::span<const float> x, int64_t k, float* values, int32_t* indices) {
  histogram_.assign(size_t{1} << kBinBits, 0);
  for (const float element : x) ++histogram_[bin_of(key_of(element))];
  uint32_t bin = 1U << kBinBits;  // the last one of which some are needed
  for (int64_t above = 0; above < k;) above += histogram_[--bin];
  candidates_.clear();
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t key = key_of(x[i]);
    // Sorted up: the largest key first, of equal ones the first place.
    if (bin_of(key) >= bin) candidates_.push_back(uint64_t{~key} << 32 | i);
  }
  std::nth_element(candidates_.begin(), candidates_.begin() + (k - 1), candidates_.end());
  std::sort(candidates_.begin(), candidates_.begin() + k);
  for (int64_t i = 0; i < k; ++i) {
    indices[i] = static_cast<int32_t>(candidates_[i]);
    values[i] = x[indices[i]];
  }
}

}  // namespace monograph::runtime
