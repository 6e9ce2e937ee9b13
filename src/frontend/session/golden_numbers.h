#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "ir/literal.h"

// What the tests of golden runs share: weights and batches as bench/golden/deterministic.py makes
// them.
namespace monograph::session {

inline constexpr uint32_t kBatchStream = 999;

inline uint32_t mix(uint32_t index, uint32_t stream) {
  uint32_t x = ((index + 1) * 0x9E3779B9u) ^ ((stream + 1) * 0x85EBCA6Bu);
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

inline ir::Literal golden_parameter(const std::string& name, const ir::Shape& shape,
                                    uint32_t number) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const auto u = static_cast<float>(mix(static_cast<uint32_t>(i), number) >> 8);
    const float centred = u * 0x1p-23f - 1.0f;
    if (shape.rank() >= 2) {
      values.push_back(centred * 0.035f);
    } else if (name.ends_with("bias")) {
      values.push_back(centred * 0.02f);
    } else {
      const float scaled = centred * 0.1f;
      values.push_back(1.0f + scaled);
    }
  }
  return ir::Literal::from_f32(shape, values);
}

inline double norm_of(const ir::Literal& literal) {
  double total = 0;
  for (int64_t i = 0; i < literal.num_elements(); ++i) total += literal.get(i) * literal.get(i);
  return std::sqrt(total);
}

}  // namespace monograph::session
