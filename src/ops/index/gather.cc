#include "ops/builder.h"
#include "ops/division.h"
#include "ops/elements.h"
#include "ops/index/ids.h"
#include "ops/registry.h"
#include "ops/shape/parts.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType &x = context.operands[0], &index = context.operands[1];
  const int axis = context.axis("axis");
  if (axis != x.shape.rank() - 1) {
    context.fail("axis {} of {}: only the last is supported, use {}", axis, x.str(),
                 x.shape.rank() - 1);
  }
  check_ids_dtype(context, 1);
  const ir::Shape expected = with_dim(x.shape, axis, 1);
  if (index.shape != expected) {
    context.fail("operand 'index' is {}: for x {} it takes shape {}", index.str(), x.str(),
                 expected.str());
  }
  return {{x.dtype, expected}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const int64_t num_columns = operands[0]->type().shape[-1];
  std::vector<int64_t> positions = read_ids(node, *operands[1], num_columns);
  for (size_t row = 0; row < positions.size(); ++row) {
    positions[row] += static_cast<int64_t>(row) * num_columns;
  }
  copy_from(*operands[0], positions, results[0]);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Value x = node.operand(0), index = node.operand(1);
  const ir::Value columns = b.emit("iota", {},
                                   {{"shape", x.shape().dims()},
                                    {"axis", node.attribute<int64_t>("axis")},
                                    {"dtype", index.dtype()}});
  const ir::Value is_chosen = b.emit("eq", {columns, index});
  return {b.where(is_chosen, cotangents[0], b.scalar(x.dtype(), 0)), {}};
}

Cost cost(const ir::Node& node) {
  const auto ids_bytes = static_cast<double>(node.operand(1).type().num_bytes());
  return {.flops = 0, .bytes = ids_bytes + 2 * static_cast<double>(node.types()[0].num_bytes())};
}

// Out of a part of the columns: zeros where the index is another rank's.
std::optional<Division> placements(const DivisionContext& c) {
  using ir::Placement;
  const Placement& x = c.given[0];
  if (!x.is_shard()) return {};
  const auto axis = c.node.attribute<int64_t>("axis");
  if (axis != x.dim) return c.of({x, x}, x);
  if (x.blocks != 1) return {};
  Division division = c.of({x, Placement::replicate()}, Placement::partial());
  division.local = [axis](Builder& build, std::span<const ir::Value> operands, ir::Value place) {
    const int64_t length = operands[0].shape()[static_cast<int>(axis)];
    const OwnIndex own = own_index(build, operands[1], place, length);
    const ir::Value found = build.emit("gather", {operands[0], own.index}, {{"axis", axis}});
    return std::vector{build.where(own.is_own, found, build.scalar(found.dtype(), 0))};
  };
  return division;
}

std::vector<Sample> samples() {
  const auto sample = [](ir::TensorType x, ir::DType index, bool gradient) {
    const int axis = x.shape.rank() - 1;
    const SampleOperand ids{
        {index, with_dim(x.shape, axis, 1)}, 0, static_cast<double>(x.shape[axis] - 1)};
    return Sample{.operands = {{x}, ids},
                  .attributes = {{"axis", int64_t{axis}}},
                  .check_gradient = gradient};
  };
  using ir::DType;
  return {sample({DType::kF32, {3, 5}}, DType::kI64, true),
          sample({DType::kF32, {2, 3, 4}}, DType::kI32, true),
          sample({DType::kF32, {6}}, DType::kI64, true),
          sample({DType::kI64, {3, 5}}, DType::kI64, false)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {3, 5}}, index{ir::DType::kI64, {3, 1}};
  return {{{x, index}, {{"axis", int64_t{0}}}, "axis 0 of f32[3,5]: only the last is supported"},
          {{x, {ir::DType::kI64, {3, 2}}},
           {{"axis", int64_t{1}}},
           "operand 'index' is i64[3,2]: for x f32[3,5] it takes shape [3,1]"},
          {{x, {ir::DType::kF32, {3, 1}}},
           {{"axis", int64_t{1}}},
           "operand 'index' is f32[3,1]: it takes i32 or i64"}};
}

}  // namespace

// gather(x, index, axis): one element of each row
const OpDef gather_op = {
    .name = "gather",
    .doc =
        "x[..., index] along axis, which must be the last: index (i32 or i64) has x's shape "
        "with 1 there, and so has the result. An index out of range is an error.",
    .operands = {"x", "index"},
    .attributes = {{"axis", AttributeKind::kInt}},
    .traits = 0,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .cost = cost,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
