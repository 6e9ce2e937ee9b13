#include "ops/builder.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& bias = context.operands[0];
  std::vector<ir::TensorType> types =
      matmul_op.infer({context.op, context.operands.subspan(1), context.attributes});
  const bool is_whole = bias == types[0];
  const bool fits = bias.dtype == types[0].dtype || bias.dtype == ir::DType::kF32;
  if (!is_whole && (!fits || bias.shape != ir::Shape{types[0].shape[-1]})) {
    context.fail("bias is {} for a product {}: use {}[{}], or {}", bias.str(), types[0].str(),
                 ir::dtype_name(types[0].dtype), types[0].shape[-1], types[0].str());
  }
  return types;
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  ir::Literal product({ir::DType::kF64, results[0].type().shape});  // rounded once, at the end
  matmul_op.reference(node, operands.subspan(1), {&product, 1});
  const std::vector<double> bias = read_elements<double>(*operands[0]);
  std::vector<double> sum = read_elements<double>(product);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += bias[i % bias.size()];
  write_elements(sum, results[0]);
}

std::vector<ir::Value> gradient(Builder& build, ir::Node& node,
                                std::span<const ir::Value> cotangents) {
  const ir::Value product = build.matmul(node.operand(1), node.operand(2));
  const std::vector<ir::Value> factors = matmul_op.gradient(build, *product.node, cotangents);
  return {cotangents[0], factors[0], factors[1]};
}

Cost cost(const ir::Node& node) {
  const double products = static_cast<double>(node.types()[0].num_elements());
  double bytes = static_cast<double>(node.types()[0].num_bytes());
  for (ir::Value operand : node.operands()) {
    bytes += static_cast<double>(operand.type().num_bytes());
  }
  return {.flops = products * (2 * static_cast<double>(node.operand(1).shape()[-1]) + 1),
          .bytes = bytes};
}

ir::TensorType f32(ir::Shape shape) {
  return {ir::DType::kF32, std::move(shape)};
}

std::vector<Sample> samples() {
  return {{.operands = {{f32({5})}, {f32({3, 4})}, {f32({4, 5})}}, .attributes = {}},
          {.operands = {{f32({2})}, {f32({2, 3, 4})}, {f32({4, 2})}}, .attributes = {}},
          {.operands = {{f32({3, 5})}, {f32({3, 4})}, {f32({4, 5})}}, .attributes = {}},
          {.operands = {{f32({2, 3, 2})}, {f32({2, 3, 4})}, {f32({2, 4, 2})}}, .attributes = {}}};
}

std::vector<BadSample> bad_samples() {
  return {{{f32({4}), f32({3, 4}), f32({4, 5})}, {}, "bias is f32[4] for a product f32[3,5]: use"},
          {{f32({3, 4}), f32({3, 4}), f32({4, 5})}, {}, "use f32[5], or f32[3,5]"},
          {{f32({5}), f32({3, 4}), f32({3, 5})}, {}, "operands are f32[3,4] and f32[3,5]"}};
}

}  // namespace

// addmm(bias, a, b) = a b + bias, as BLAS's gemm with beta = 1 where bias is a matrix
const OpDef addmm_op = {
    .name = "addmm",
    .doc =
        "matmul(a, b) + bias: a bias of the last dim, of the result's dtype or f32, or a whole "
        "matrix of the result's type, which the product is accumulated on.",
    .operands = {"bias", "a", "b"},
    .attributes = {{"dtype", AttributeKind::kDType, true}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .cost = cost,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
