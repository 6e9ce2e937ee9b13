#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/division.h"
#include "ops/elements.h"
#include "ops/registry.h"
#include "ops/shape/parts.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const auto k = context.attribute<int64_t>("k");
  if (x.dtype != ir::DType::kF32 || x.shape.rank() < 1) {
    context.fail("operand 'x' is {}: it takes f32[...,n]", x.str());
  }
  const int64_t length = x.shape[-1];
  if (k < 1 || k > length) context.fail("k {} of {}: use 1..{}", k, x.str(), length);
  if (length >= INT32_MAX) context.fail("{}: indices are i32, so n stays below 2^31 - 1", x.str());
  const ir::Shape shape = with_dim(x.shape, x.shape.rank() - 1, k);
  return {{ir::DType::kF32, shape}, {ir::DType::kI32, shape}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const std::vector<double> x = read_elements<double>(*operands[0]);
  const int64_t length = operands[0]->type().shape[-1], k = node.attribute<int64_t>("k");
  std::vector<double> values;
  std::vector<int64_t> indices, order(length);
  for (size_t first = 0; first < x.size(); first += length) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double left = x[first + a], right = x[first + b];
      return std::isnan(left) ? !std::isnan(right) : left > right;
    });
    for (int64_t i = 0; i < k; ++i) {
      indices.push_back(order[i]);
      values.push_back(x[first + order[i]]);
    }
  }
  write_elements(values, results[0]);
  write_elements(indices, results[1]);
}

std::optional<Division> placements(const DivisionContext& c) {
  const ir::Placement& x = c.given[0];
  if (!x.is_shard() || x.dim == c.shape(0).rank() - 1) return {};
  return c.of({x}, x);
}

std::vector<Sample> samples() {
  const auto sample = [](ir::Shape shape, int64_t k) {
    return Sample{.operands = {{{ir::DType::kF32, std::move(shape)}, -2, 2}},
                  .attributes = {{"k", k}},
                  .check_gradient = false};
  };
  return {sample({40}, 7), sample({3, 9}, 9), sample({2, 4, 33}, 1), sample({1000}, 10)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {3, 5}};
  return {{{x}, {{"k", int64_t{0}}}, "k 0 of f32[3,5]: use 1..5"},
          {{x}, {{"k", int64_t{6}}}, "k 6 of f32[3,5]: use 1..5"},
          {{{ir::DType::kI64, {5}}}, {{"k", int64_t{1}}}, "operand 'x' is i64[5]: it takes f32"},
          {{{ir::DType::kF32, {}}}, {{"k", int64_t{1}}}, "operand 'x' is f32[]"}};
}

}  // namespace

// top_k(x, k) -> values, indices
const OpDef top_k_op = {
    .name = "top_k",
    .doc =
        "The k largest elements of each row of x[...,n] (f32), the largest first, equal ones in "
        "their order and NaN above all (values, f32[...,k]), and their places (indices, "
        "i32[...,k]). On CPUs.",
    .operands = {"x"},
    .attributes = {{"k", AttributeKind::kInt}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
