#include <cmath>

#include "ops/create/create.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const auto dtype = context.attribute<ir::DType>("dtype");
  const auto value = context.attribute<double>("value");
  if (dtype == ir::DType::kBool && value != 0 && value != 1) {
    context.fail("value {} is no bool: use 0.0 or 1.0", value);
  }
  if (ir::is_integer(dtype) && (value != std::floor(value) || std::isinf(value))) {
    context.fail("value {} is no integer: use another value, or a floating dtype for {}", value,
                 ir::dtype_name(dtype));
  }
  return {{dtype, shape_attribute(context, "shape")}};
}

void reference(const ir::Node& node, Literals, std::span<ir::Literal> results) {
  const auto value = node.attribute<double>("value");
  for (int64_t i = 0; i < results[0].num_elements(); ++i) results[0].set(i, value);
}

ir::Attributes attributes(std::vector<int64_t> shape, ir::DType dtype, double value) {
  return {{"shape", std::move(shape)}, {"dtype", dtype}, {"value", value}};
}

std::vector<Sample> samples() {
  std::vector<Sample> samples;
  for (ir::Attributes given :
       {attributes({2, 3}, ir::DType::kF32, 0.1), attributes({}, ir::DType::kF64, -1),
        attributes({4}, ir::DType::kBF16, 0.1), attributes({4}, ir::DType::kI64, 7),
        attributes({2, 2}, ir::DType::kBool, 1)}) {
    samples.push_back({.operands = {}, .attributes = std::move(given), .check_gradient = false});
  }
  return samples;
}

std::vector<BadSample> bad_samples() {
  return {
      {{}, attributes({2, -1}, ir::DType::kF32, 0), "shape [2,-1] has a negative dim"},
      {{}, attributes({2}, ir::DType::kI64, 0.5), "value 0.5 is no integer"},
      {{}, attributes({2}, ir::DType::kBool, 2), "value 2 is no bool: use 0.0 or 1.0"},
      {{}, {{"dtype", ir::DType::kF32}, {"value", 1.0}}, "attribute 'shape' (ints) is missing"}};
}

}  // namespace

// full(shape, dtype, value): the same value everywhere
const OpDef full_op = {
    .name = "full",
    .doc = "A tensor whose every element is value.",
    .operands = {},
    .attributes = {{"shape", AttributeKind::kInts},
                   {"dtype", AttributeKind::kDType},
                   {"value", AttributeKind::kFloat}},
    .traits = kCreation,
    .infer = infer,
    .reference = reference,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
