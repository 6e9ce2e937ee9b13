#include "ops/builder.h"
#include "ops/create/create.h"
#include "ops/division.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const ir::Shape shape = shape_attribute(context, "shape");
  if (!ir::broadcasts_to(x.shape, shape)) {
    context.fail("{} does not broadcast to {}: aligned at the right, each dim must be equal or 1",
                 x.str(), shape.str());
  }
  return {{x.dtype, shape}};
}

void reference(const ir::Node&, Literals operands, std::span<ir::Literal> results) {
  copy_from(*operands[0], broadcast_positions(operands[0]->type().shape, results[0].type().shape),
            results[0]);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  return {b.sum_to(cotangents[0], node.operand(0).shape())};
}

std::optional<Division> placements(const DivisionContext& c) {
  const ir::Placement& given = c.given[0];
  if (given.is_partial()) return c.of({given}, given);
  if (!given.is_shard()) return {};
  const int before = c.result_shape().rank() - c.shape(0).rank();
  const auto result = ir::Placement::shard(given.dim + before, given.blocks);
  Division division = c.of({given}, result);
  division.attributes["shape"] = result.part_of(c.result_shape(), c.size).dims();
  return division;
}

std::vector<Sample> samples() {
  const auto sample = [](ir::TensorType x, std::vector<int64_t> shape, bool gradient) {
    return Sample{.operands = {{std::move(x)}},
                  .attributes = {{"shape", std::move(shape)}},
                  .check_gradient = gradient};
  };
  return {sample({ir::DType::kF32, {3}}, {2, 3}, true),
          sample({ir::DType::kF32, {2, 1}}, {4, 2, 3}, true),
          sample({ir::DType::kF32, {}}, {2, 2}, true),
          sample({ir::DType::kF32, {1, 3}}, {1, 3}, true),
          sample({ir::DType::kBool, {2, 1}}, {2, 3}, false)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2, 3}};
  return {{{x}, {{"shape", std::vector<int64_t>{2, 4}}}, "f32[2,3] does not broadcast to [2,4]"},
          {{x}, {{"shape", std::vector<int64_t>{3}}}, "f32[2,3] does not broadcast to [3]"},
          {{x}, {{"shape", std::vector<int64_t>{-1, 3}}}, "shape [-1,3] has a negative dim"}};
}

}  // namespace

// expand(x, shape): x broadcast to shape
const OpDef expand_op = {
    .name = "expand",
    .doc = "x broadcast to a shape, aligned at the right.",
    .operands = {"x"},
    .attributes = {{"shape", AttributeKind::kInts}},
    .traits = kViewLike,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
