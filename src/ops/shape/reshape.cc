#include "ops/builder.h"
#include "ops/create/create.h"
#include "ops/division.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const ir::Shape shape = shape_attribute(context, "shape");
  if (shape.num_elements() != x.num_elements()) {
    context.fail("{} has {} elements and shape {} has {}: give a shape of {} elements", x.str(),
                 x.num_elements(), shape.str(), shape.num_elements(), x.num_elements());
  }
  return {{x.dtype, shape}};
}

void reference(const ir::Node&, Literals operands, std::span<ir::Literal> results) {
  std::copy_n(operands[0]->data(), results[0].type().num_bytes(), results[0].data());
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  return {b.reshape(cotangents[0], node.operand(0).shape())};
}

std::optional<Division> placements(const DivisionContext& c) {
  const ir::Placement& given = c.given[0];
  if (given.is_partial()) return c.of({given}, given);
  if (!given.is_shard()) return {};
  const auto shown = ir::reshape_shard(given, c.shape(0), c.result_shape(), c.size);
  if (!shown) return {};
  Division division = c.of({given}, *shown);
  division.attributes["shape"] = shown->part_of(c.result_shape(), c.size).dims();
  return division;
}

std::vector<Sample> samples() {
  const auto sample = [](ir::TensorType x, std::vector<int64_t> shape, bool gradient) {
    return Sample{.operands = {{std::move(x)}},
                  .attributes = {{"shape", std::move(shape)}},
                  .check_gradient = gradient};
  };
  return {sample({ir::DType::kF32, {2, 6}}, {3, 4}, true),
          sample({ir::DType::kF32, {2, 3}}, {6}, true), sample({ir::DType::kF32, {1}}, {}, true),
          sample({ir::DType::kI64, {4}}, {2, 2}, false)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2, 3}};
  return {{{x},
           {{"shape", std::vector<int64_t>{4}}},
           "f32[2,3] has 6 elements and shape [4] has 4: give a shape of 6 elements"},
          {{x}, {{"shape", std::vector<int64_t>{2, -1}}}, "shape [2,-1] has a negative dim"}};
}

}  // namespace

// reshape(x, shape): the same elements in row-major order
const OpDef reshape_op = {
    .name = "reshape",
    .doc = "The elements of x, in row-major order, in another shape of as many elements.",
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
