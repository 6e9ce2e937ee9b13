#include "ops/builder.h"
#include "ops/division.h"
#include "ops/elements.h"
#include "ops/registry.h"
#include "ops/shape/parts.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& first = context.operands[0];
  const int axis = context.axis("axis");
  int64_t total = 0;
  for (const ir::TensorType& x : context.operands) {
    const bool fits = x.dtype == first.dtype && x.shape.rank() == first.shape.rank() &&
                      with_dim(x.shape, axis, 0) == with_dim(first.shape, axis, 0);
    if (!fits) {
      context.fail("operands {} and {} on axis {}: dtype and all dims but that one must be equal",
                   first.str(), x.str(), axis);
    }
    total += x.shape[axis];
  }
  return {{first.dtype, with_dim(first.shape, axis, total)}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const auto axis = node.attribute<int64_t>("axis");
  int64_t start = 0;
  for (const ir::Literal* x : operands) {
    const ir::Shape& shape = x->type().shape;
    copy_to(*x, part_positions(results[0].type().shape, shape, axis, start), results[0]);
    start += shape[static_cast<int>(axis)];
  }
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  if (node.num_operands() == 1) return {cotangents[0]};
  const auto axis = node.attribute<int64_t>("axis");
  std::vector<int64_t> sizes;
  for (ir::Value x : node.operands()) sizes.push_back(x.shape()[static_cast<int>(axis)]);
  ir::Node* split =
      b.emit_node("split_with_sizes", {cotangents[0]}, {{"axis", axis}, {"sizes", sizes}});
  std::vector<ir::Value> parts;
  for (int i = 0; i < split->num_results(); ++i) parts.push_back(split->result(i));
  return parts;
}

// Shards along the axis become blocks of it.
std::optional<Division> placements(const DivisionContext& c) {
  if (c.all_sums()) return c.of_each(ir::Placement::partial(), ir::Placement::partial());
  const int first = c.first_shard();
  if (first < 0) return {};
  const ir::Placement shard = c.given[first];
  if (c.node.attribute<int64_t>("axis") != shard.dim) return c.of_each(shard, shard);
  const bool are_equal =
      std::all_of(c.node.operands().begin(), c.node.operands().end(),
                  [&](ir::Value operand) { return operand.shape() == c.shape(0); });
  if (!are_equal || shard.blocks != 1) return {};
  return c.of_each(shard, ir::Placement::shard(shard.dim, c.node.num_operands()));
}

std::vector<Sample> samples() {
  const auto f32 = [](ir::Shape shape) {
    return SampleOperand{{ir::DType::kF32, std::move(shape)}};
  };
  const SampleOperand ids{{ir::DType::kI64, {3}}, -9, 9};
  return {
      {.operands = {f32({2, 3}), f32({1, 3}), f32({2, 3})}, .attributes = {{"axis", int64_t{0}}}},
      {.operands = {f32({2, 3}), f32({2, 1})}, .attributes = {{"axis", int64_t{1}}}},
      {.operands = {f32({2, 3})}, .attributes = {{"axis", int64_t{1}}}},
      {.operands = {ids, ids}, .attributes = {{"axis", int64_t{0}}}, .check_gradient = false}};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2, 3}};
  const ir::Attributes axis0{{"axis", int64_t{0}}};
  return {{{x, {ir::DType::kF32, {2, 4}}},
           axis0,
           "operands f32[2,3] and f32[2,4] on axis 0: dtype and all dims but that one must be"},
          {{x, {ir::DType::kF64, {2, 3}}}, axis0, "operands f32[2,3] and f64[2,3] on axis 0"},
          {{x, {ir::DType::kF32, {3}}}, axis0, "operands f32[2,3] and f32[3] on axis 0"},
          {{x, x}, {{"axis", int64_t{2}}}, "axis 2 out of range for f32[2,3]: use 0..1"},
          {{}, axis0, "0 operands given: it takes at least 1 (xs...)"}};
}

}  // namespace

// cat(xs..., axis): the operands one after the other along axis
const OpDef cat_op = {
    .name = "cat",
    .doc = "The operands one after the other along axis.",
    .operands = {"xs..."},
    .attributes = {{"axis", AttributeKind::kInt}},
    .traits = kGather,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
