#include "ops/create/create.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const auto dtype = context.attribute<ir::DType>("dtype");
  ir::Shape shape = shape_attribute(context, "shape");
  const auto axis = context.attribute<int64_t>("axis");
  if (dtype == ir::DType::kBool) context.fail("dtype is bool: use an integer or floating dtype");
  if (axis < 0 || axis >= shape.rank()) {
    context.fail("axis {} out of range for shape {}: use 0..{}", axis, shape.str(),
                 shape.rank() - 1);
  }
  return {{dtype, std::move(shape)}};
}

void reference(const ir::Node& node, Literals, std::span<ir::Literal> results) {
  const ir::Shape& shape = results[0].type().shape;
  std::vector<int64_t> strides(shape.rank(), 0);
  strides[node.attribute<int64_t>("axis")] = 1;
  write_elements(strided_positions(shape, strides), results[0]);
}

ir::Attributes attributes(std::vector<int64_t> shape, int64_t axis, ir::DType dtype) {
  return {{"shape", std::move(shape)}, {"axis", axis}, {"dtype", dtype}};
}

std::vector<Sample> samples() {
  std::vector<Sample> samples;
  for (ir::Attributes given :
       {attributes({5}, 0, ir::DType::kI64), attributes({3, 4}, 0, ir::DType::kI32),
        attributes({3, 4}, 1, ir::DType::kF32), attributes({2, 3, 4}, 1, ir::DType::kBF16)}) {
    samples.push_back({.operands = {}, .attributes = std::move(given), .check_gradient = false});
  }
  return samples;
}

std::vector<BadSample> bad_samples() {
  return {
      {{}, attributes({2, 3}, 2, ir::DType::kI64), "axis 2 out of range for shape [2,3]: use 0..1"},
      {{}, attributes({2, 3}, -1, ir::DType::kI64), "axis -1 out of range"},
      {{}, attributes({2}, 0, ir::DType::kBool), "dtype is bool: use an integer"}};
}

}  // namespace

// iota(shape, axis, dtype): element = its index along axis
const OpDef iota_op = {
    .name = "iota",
    .doc = "The index of each element along axis.",
    .operands = {},
    .attributes = {{"shape", AttributeKind::kInts},
                   {"axis", AttributeKind::kInt},
                   {"dtype", AttributeKind::kDType}},
    .traits = kCreation,
    .infer = infer,
    .reference = reference,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
