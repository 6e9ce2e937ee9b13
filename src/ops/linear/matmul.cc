#include <algorithm>

#include "ops/builder.h"
#include "ops/division.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

// a[...,M,K] times b[K,N], or equal batches of both. A batch over one b is one product of more
// rows.
struct Sizes {
  int64_t num_batches, m, k, n;
};

Sizes sizes_of(const ir::Shape& a, const ir::Shape& b) {
  const int64_t k = a[-1], n = b[-1];
  int64_t rows = 1, num_batches = 1;
  for (int axis = 0; axis + 1 < a.rank(); ++axis) rows *= a[axis];
  for (int axis = 0; axis + 2 < b.rank(); ++axis) num_batches *= b[axis];
  return {num_batches, num_batches == 0 ? 0 : rows / num_batches, k, n};
}

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType &a = context.operands[0], &b = context.operands[1];
  if (a.dtype != b.dtype || !ir::is_floating(a.dtype)) {
    context.fail("operands are {} and {}: both must have one floating dtype, convert them", a.str(),
                 b.str());
  }
  const int rank = a.shape.rank();
  bool fits = rank >= 2 && (b.shape.rank() == 2 || b.shape.rank() == rank);
  for (int axis = 0; fits && b.shape.rank() > 2 && axis < rank - 2; ++axis) {
    fits = a.shape[axis] == b.shape[axis];
  }
  if (!fits || a.shape[-1] != b.shape[-2]) {
    context.fail(
        "operands are {} and {}: use [...,M,K] with [K,N], or both with equal leading "
        "dims, [...,M,K] with [...,K,N]",
        a.str(), b.str());
  }
  std::vector<int64_t> dims = a.shape.dims();
  dims.back() = b.shape[-1];
  const auto given = context.attributes.find("dtype");
  const ir::DType dtype =
      given == context.attributes.end() ? a.dtype : std::get<ir::DType>(given->second);
  if (dtype != a.dtype && dtype != ir::DType::kF32) {
    context.fail("dtype {} for operands of {}: use {} or f32", ir::dtype_name(dtype),
                 ir::dtype_name(a.dtype), ir::dtype_name(a.dtype));
  }
  return {{dtype, ir::Shape(std::move(dims))}};
}

// c = a[M,K] times b[K,N], each element summed in order of k. Columns are taken kWidth at a time,
// packed, so that their sums stay in registers.
void multiply(const Sizes& sizes, const double* a, const double* b, double* c) {
  constexpr int kWidth = 8;
  std::vector<double> panel(sizes.k * kWidth);
  for (int64_t n = 0; n < sizes.n; n += kWidth) {
    const int64_t width = std::min<int64_t>(kWidth, sizes.n - n);
    for (int64_t k = 0; k < sizes.k; ++k)
      std::copy_n(b + k * sizes.n + n, width, &panel[k * kWidth]);
    for (int64_t m = 0; m < sizes.m; ++m) {
      double sums[kWidth] = {};
      for (int64_t k = 0; k < sizes.k; ++k) {
#pragma GCC unroll 8
        for (int i = 0; i < kWidth; ++i) sums[i] += a[m * sizes.k + k] * panel[k * kWidth + i];
      }
      std::copy_n(sums, width, c + m * sizes.n + n);
    }
  }
}

void reference(const ir::Node&, Literals operands, std::span<ir::Literal> results) {
  const Sizes sizes = sizes_of(operands[0]->type().shape, operands[1]->type().shape);
  const std::vector<double> a = read_elements<double>(*operands[0]);
  const std::vector<double> b = read_elements<double>(*operands[1]);
  std::vector<double> c(results[0].num_elements());
  for (int64_t batch = 0; batch < sizes.num_batches; ++batch) {
    multiply(sizes, a.data() + batch * sizes.m * sizes.k, b.data() + batch * sizes.k * sizes.n,
             c.data() + batch * sizes.m * sizes.n);
  }
  write_elements(c, results[0]);
}

std::vector<ir::Value> gradient(Builder& build, ir::Node& node,
                                std::span<const ir::Value> cotangents) {
  ir::Value a = node.operand(0), b = node.operand(1);
  ir::Value g = build.convert(cotangents[0], a.dtype());
  const ir::Value d_a = build.matmul(g, build.transpose_last(b));
  if (b.shape().rank() == 2) {
    const Sizes sizes = sizes_of(a.shape(), b.shape());
    a = build.reshape(a, {sizes.m, sizes.k});
    g = build.reshape(g, {sizes.m, sizes.n});
  }
  return {d_a, build.matmul(build.transpose_last(a), g)};
}

Cost cost(const ir::Node& node) {
  const ir::TensorType &a = node.operand(0).type(), &b = node.operand(1).type();
  const double moved = static_cast<double>(a.num_bytes()) + static_cast<double>(b.num_bytes()) +
                       static_cast<double>(node.types()[0].num_bytes());
  const auto num_products = static_cast<double>(node.types()[0].num_elements());
  return {.flops = 2 * num_products * static_cast<double>(a.shape[-1]), .bytes = moved};
}

// Parts of the rows or columns give parts; parts of both sides of the sum give summands.
std::optional<Division> placements(const DivisionContext& c) {
  using ir::Placement;
  const Placement whole = Placement::replicate(), sum = Placement::partial();
  const Placement &a = c.given[0], &b = c.given[1];
  const int rank_a = c.shape(0).rank(), rank_b = c.shape(1).rank();
  const int rank = c.result_shape().rank();
  if (b.is_shard() && b.dim == rank_b - 2) {
    const bool keeps_rows = a.is_shard() && a.dim == rank_a - 2;
    if (keeps_rows) return c.of({a, whole}, a);
    return c.of({Placement::shard(rank_a - 1, b.blocks), b}, sum);
  }
  if (b.is_shard() && b.dim == rank_b - 1) {
    return c.of({whole, b}, Placement::shard(rank - 1, b.blocks));
  }
  if (b.is_shard()) return c.of({b, b}, b);
  if (!a.is_shard()) return {};
  if (a.dim == rank_a - 1) return c.of({a, Placement::shard(rank_b - 2, a.blocks)}, sum);
  const bool is_batch = rank_b > 2 && a.dim < rank_a - 2;
  return c.of({a, is_batch ? a : whole}, a);
}

std::vector<Sample> samples() {
  const auto sample = [](ir::DType dtype, ir::Shape a, ir::Shape b, bool gradient) {
    return Sample{.operands = {{{dtype, std::move(a)}}, {{dtype, std::move(b)}}},
                  .attributes = {},
                  .check_gradient = gradient};
  };
  using ir::DType;
  return {sample(DType::kF32, {3, 4}, {4, 5}, true),
          sample(DType::kF32, {1, 7}, {7, 1}, true),
          sample(DType::kF32, {2, 3, 4}, {4, 5}, true),
          sample(DType::kF32, {2, 3, 4}, {2, 4, 5}, true),
          sample(DType::kF32, {2, 2, 3, 4}, {2, 2, 4, 2}, true),
          sample(DType::kF32, {2, 2, 3, 4}, {4, 2}, true),
          sample(DType::kF64, {3, 4}, {4, 5}, true),
          sample(DType::kBF16, {3, 8}, {8, 5}, false)};
}

std::vector<BadSample> bad_samples() {
  const auto f32 = [](ir::Shape shape) {
    return ir::TensorType{ir::DType::kF32, std::move(shape)};
  };
  return {{{f32({3, 4}), f32({5, 6})},
           {},
           "operands are f32[3,4] and f32[5,6]: use [...,M,K] with [K,N]"},
          {{f32({4}), f32({4, 5})}, {}, "operands are f32[4] and f32[4,5]"},
          {{f32({3, 4}), f32({2, 4, 5})}, {}, "operands are f32[3,4] and f32[2,4,5]"},
          {{f32({3, 2, 4}), f32({2, 4, 5})}, {}, "or both with equal leading dims"},
          {{f32({3, 4}), {ir::DType::kF64, {4, 5}}}, {}, "both must have one floating dtype"},
          {{{ir::DType::kI64, {3, 4}}, {ir::DType::kI64, {4, 5}}},
           {},
           "both must have one floating dtype"}};
}

}  // namespace

// matmul(a, b); d a = g b^T, d b = a^T g
const OpDef matmul_op = {
    .name = "matmul",
    .doc =
        "Matrix product: a[...,M,K] with b[K,N], or with b[...,K,N] of equal leading dims. "
        "Accumulates in f32 at least; the result has the operands' dtype, or f32 if asked for.",
    .operands = {"a", "b"},
    .attributes = {{"dtype", AttributeKind::kDType, true}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .cost = cost,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
