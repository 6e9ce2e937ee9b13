#include "ops/builder.h"
#include "ops/division.h"
#include "ops/elements.h"
#include "ops/registry.h"
#include "ops/shape/parts.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const int axis = context.axis("axis");
  const auto start = context.attribute<int64_t>("start"), end = context.attribute<int64_t>("end");
  if (start < 0 || end <= start || end > x.shape[axis]) {
    context.fail("start {} and end {} on axis {} of {}: use 0 <= start < end <= {}", start, end,
                 axis, x.str(), x.shape[axis]);
  }
  return {{x.dtype, with_dim(x.shape, axis, end - start)}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const auto positions =
      part_positions(operands[0]->type().shape, results[0].type().shape,
                     node.attribute<int64_t>("axis"), node.attribute<int64_t>("start"));
  copy_from(*operands[0], positions, results[0]);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Shape& shape = node.operand(0).shape();
  const auto axis = node.attribute<int64_t>("axis");
  const auto start = node.attribute<int64_t>("start"), end = node.attribute<int64_t>("end");
  std::vector<ir::Value> parts;
  const auto add_zeros = [&](int64_t size) {
    if (size == 0) return;
    parts.push_back(b.full({cotangents[0].dtype(), with_dim(shape, axis, size)}, 0));
  };
  add_zeros(start);
  parts.push_back(cotangents[0]);
  add_zeros(shape[static_cast<int>(axis)] - end);
  if (parts.size() == 1) return parts;
  return {b.emit("cat", parts, {{"axis", axis}})};
}

ir::Attributes attributes(int64_t axis, int64_t start, int64_t end) {
  return {{"axis", axis}, {"start", start}, {"end", end}};
}

std::optional<Division> placements(const DivisionContext& c) {
  const ir::Placement& given = c.given[0];
  const bool is_cut = given.is_shard() && c.node.attribute<int64_t>("axis") == given.dim;
  if (is_cut || !(given.is_shard() || given.is_partial())) return {};
  return c.of({given}, given);
}

std::vector<Sample> samples() {
  const SampleOperand x{{ir::DType::kF32, {4, 5}}};
  return {{.operands = {x}, .attributes = attributes(0, 1, 3)},
          {.operands = {x}, .attributes = attributes(1, 0, 2)},
          {.operands = {x}, .attributes = attributes(1, 2, 5)},
          {.operands = {x}, .attributes = attributes(0, 0, 4)},
          {.operands = {{{ir::DType::kI64, {2, 3, 2}}, -9, 9}},
           .attributes = attributes(1, 1, 2),
           .check_gradient = false}};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2, 3}};
  return {{{x}, attributes(2, 0, 1), "axis 2 out of range for f32[2,3]: use 0..1"},
          {{x}, attributes(-1, 0, 1), "axis -1 out of range for f32[2,3]"},
          {{x}, attributes(1, 1, 4), "start 1 and end 4 on axis 1 of f32[2,3]: use 0 <= start"},
          {{x}, attributes(1, 2, 2), "start 2 and end 2"},
          {{x}, attributes(1, -1, 2), "start -1 and end 2"}};
}

}  // namespace

// slice(x, axis, start, end): x[start:end] along axis
const OpDef slice_op = {
    .name = "slice",
    .doc = "Elements start to end - 1 along axis.",
    .operands = {"x"},
    .attributes = {{"axis", AttributeKind::kInt},
                   {"start", AttributeKind::kInt},
                   {"end", AttributeKind::kInt}},
    .traits = kViewLike,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
