#include "ops/builder.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  return {{context.attribute<ir::DType>("dtype"), context.shape(0)}};
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::DType dtype = node.operand(0).dtype();
  return {ir::is_floating(dtype) ? b.convert(cotangents[0], dtype) : ir::Value{}};
}

std::vector<Sample> samples() {
  using ir::DType;
  const auto sample = [](DType from, DType to, double low, double high, bool gradient) {
    return Sample{.operands = {{{from, {3, 5}}, low, high}},
                  .attributes = {{"dtype", to}},
                  .check_gradient = gradient};
  };
  return {sample(DType::kF32, DType::kF64, -2, 2, true),
          sample(DType::kF32, DType::kBF16, -2, 2, false),
          sample(DType::kF32, DType::kF16, -2, 2, false),
          sample(DType::kBF16, DType::kF32, -2, 2, false),
          sample(DType::kF32, DType::kI64, -9, 9, false),
          sample(DType::kF32, DType::kBool, -1, 1, false),
          sample(DType::kI64, DType::kF32, -9, 9, false),
          sample(DType::kI64, DType::kI32, -9, 9, false),
          sample(DType::kU16, DType::kI32, 0, 65535, false),
          sample(DType::kBool, DType::kF32, 0, 1, false)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2}};
  return {{{x}, {}, "attribute 'dtype' (dtype) is missing: give it"},
          {{x}, {{"dtype", std::string("f32")}}, "attribute 'dtype' is of kind string"}};
}

}  // namespace

// convert(x, dtype): the same numbers in another dtype
const OpDef convert_op = {
    .name = "convert",
    .doc =
        "x in another dtype: rounded to nearest even between floating dtypes, towards zero to "
        "an integer one; to bool, true where x is not 0.",
    .operands = {"x"},
    .attributes = {{"dtype", AttributeKind::kDType}},
    .traits = kPointwise,
    .infer = infer,
    .reference =
        [](const ir::Node&, Literals operands, std::span<ir::Literal> results) {
          reference_unary(operands, results, [](auto x) { return x; });
        },
    .gradient = gradient,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
