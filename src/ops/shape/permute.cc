#include <algorithm>

#include "ops/builder.h"
#include "ops/division.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const auto& axes = context.attribute<std::vector<int64_t>>("axes");
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = static_cast<int>(axes.size()) == x.shape.rank();
  for (size_t i = 0; i < sorted.size(); ++i) {
    is_permutation = is_permutation && sorted[i] == static_cast<int64_t>(i);
  }
  if (!is_permutation) {
    context.fail("axes [{}] for {}: give each axis in 0..{} once", fmt::join(axes, ","), x.str(),
                 x.shape.rank() - 1);
  }
  std::vector<int64_t> dims;
  for (int64_t axis : axes) dims.push_back(x.shape[static_cast<int>(axis)]);
  return {{x.dtype, ir::Shape(std::move(dims))}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const std::vector<int64_t> strides = operands[0]->type().shape.contiguous_strides();
  std::vector<int64_t> permuted;
  for (int64_t axis : node.attribute<std::vector<int64_t>>("axes")) {
    permuted.push_back(strides[axis]);
  }
  copy_from(*operands[0], strided_positions(results[0].type().shape, permuted), results[0]);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const auto& axes = node.attribute<std::vector<int64_t>>("axes");
  std::vector<int64_t> inverse(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) inverse[axes[i]] = static_cast<int64_t>(i);
  return {b.permute(cotangents[0], std::move(inverse))};
}

std::optional<Division> placements(const DivisionContext& c) {
  const ir::Placement& given = c.given[0];
  if (given.is_partial()) return c.of({given}, given);
  if (!given.is_shard()) return {};
  const auto& axes = c.node.attribute<std::vector<int64_t>>("axes");
  const auto dim = std::find(axes.begin(), axes.end(), given.dim) - axes.begin();
  return c.of({given}, ir::Placement::shard(static_cast<int>(dim), given.blocks));
}

std::vector<Sample> samples() {
  const auto sample = [](ir::TensorType x, std::vector<int64_t> axes, bool gradient) {
    return Sample{.operands = {{std::move(x)}},
                  .attributes = {{"axes", std::move(axes)}},
                  .check_gradient = gradient};
  };
  return {sample({ir::DType::kF32, {2, 3}}, {1, 0}, true),
          sample({ir::DType::kF32, {2, 3, 4}}, {2, 0, 1}, true),
          sample({ir::DType::kF32, {2, 3, 4, 5}}, {0, 2, 1, 3}, true),
          sample({ir::DType::kI32, {2, 3}}, {1, 0}, false)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2, 3}};
  const auto axes = [](std::vector<int64_t> given) { return ir::Attributes{{"axes", given}}; };
  return {{{x}, axes({0}), "axes [0] for f32[2,3]: give each axis in 0..1 once"},
          {{x}, axes({1, 1}), "axes [1,1] for f32[2,3]"},
          {{x}, axes({-1, 0}), "axes [-1,0] for f32[2,3]"}};
}

}  // namespace

// permute(x, axes): axis i of the result is axis axes[i] of x
const OpDef permute_op = {
    .name = "permute",
    .doc = "x with its axes reordered: axis i of the result is axis axes[i] of x.",
    .operands = {"x"},
    .attributes = {{"axes", AttributeKind::kInts}},
    .traits = kViewLike,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
