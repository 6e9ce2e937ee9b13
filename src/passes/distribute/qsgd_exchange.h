#pragma once

#include "passes/distribute/exchange_builder.h"

namespace monograph::passes {

// Elements that share a scale, as in the paper's experiments.
inline constexpr int64_t kQsgdBucket = 512;

// QSGD (Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and
// encoding", 2017), with the largest magnitude of a bucket as its scale (section 5 there): of
// `bits` bits an element, with s = 2^(bits-1) - 1 levels on each side of zero,
//   a = s |x| / scale, level = floor(a) + [u < a - floor(a)], x' = sign(x) scale level / s
// for uniform u, so that the mean of x' is x. The levels go as bytes, 8 / bits of them in each; the
// scales as f32. A bucket that is not finite gives NaN.

// The sum over the ranks of each gradient: levels and scales of all ranks, gathered.
std::vector<ir::Value> qsgd_all_reduce(const Exchange& exchange, ExchangeBuilder& builder);
// This rank's part of the sum of the only gradient, f32[ranks * n]: each rank sends to each other
// what that one needs.
ir::Value qsgd_reduce_scatter(const Exchange& exchange, ExchangeBuilder& builder);

// What a rank sends: levels u8[rows, buckets * 512 * bits / 8] and scales f32[rows, buckets] of
// x f32[rows, buckets * 512], by the uniform f32[rows, buckets, 512].
struct Quantized {
  ir::Value levels, scales;
};
Quantized quantize(ExchangeBuilder& builder, ir::Value x, ir::Value uniform, int64_t bits);
// The sum over the rows of what they stand for, f32[buckets * 512].
ir::Value sum_of_quantized(ExchangeBuilder& builder, const Quantized& rows, int64_t bits);

}  // namespace monograph::passes
