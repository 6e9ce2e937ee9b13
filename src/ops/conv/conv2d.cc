#include "ops/builder.h"
#include "ops/conv/convolution.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

using Ints = std::vector<int64_t>;

std::vector<ir::TensorType> infer(const InferContext& context) {
  return {infer_conv(context, context.operands[0], context.operands[1])};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const std::vector<double> x = read_elements<double>(*operands[0]);
  const std::vector<double> weight = read_elements<double>(*operands[1]);
  std::vector<double> y(results[0].num_elements());
  convolve(conv_sizes(node), x.data(), weight.data(), y.data());
  write_elements(y, results[0]);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Value x = node.operand(0), weight = node.operand(1), g = cotangents[0];
  ir::Attributes of_data = node.attributes(), of_weight = node.attributes();
  of_data["size"] = Ints{x.shape()[1], x.shape()[2]};
  of_weight["kernel"] = Ints{weight.shape()[0], weight.shape()[1]};
  return {b.emit("conv2d_backward_data", {g, weight}, of_data),
          b.emit("conv2d_backward_weight", {x, g}, of_weight)};
}

ir::Attributes attributes(int64_t stride, int64_t padding) {
  return {{"stride", Ints{stride, stride}}, {"padding", Ints{padding, padding}}};
}

std::vector<Sample> samples() {
  const auto sample = [](ir::Shape x, ir::Shape weight, ir::Attributes attributes) {
    return Sample{
        .operands = {{{ir::DType::kF32, std::move(x)}}, {{ir::DType::kF32, std::move(weight)}}},
        .attributes = std::move(attributes)};
  };
  return {sample({1, 4, 5, 2}, {3, 3, 2, 3}, attributes(1, 1)),
          sample({2, 4, 4, 3}, {1, 1, 3, 2}, attributes(2, 0)),
          sample({1, 6, 5, 1}, {2, 3, 1, 2}, {{"stride", Ints{2, 1}}, {"padding", Ints{0, 2}}}),
          sample({1, 7, 7, 3}, {7, 7, 3, 4}, attributes(2, 3)),
          {.operands = {{{ir::DType::kF64, {1, 3, 3, 2}}}, {{ir::DType::kF64, {2, 2, 2, 2}}}},
           .attributes = attributes(1, 0)},
          {.operands = {{{ir::DType::kBF16, {1, 4, 4, 2}}}, {{ir::DType::kBF16, {3, 3, 2, 2}}}},
           .attributes = attributes(1, 1),
           .check_gradient = false}};
}

std::vector<BadSample> bad_samples() {
  const auto f32 = [](ir::Shape shape) {
    return ir::TensorType{ir::DType::kF32, std::move(shape)};
  };
  const ir::TensorType x = f32({1, 4, 4, 2}), weight = f32({3, 3, 2, 3});
  return {{{x, f32({3, 3, 3, 3})}, attributes(1, 0), "an image of f32[1,4,4,2] and weights of"},
          {{f32({4, 4, 2}), weight}, attributes(1, 0), "use [batch,height,width,in]"},
          {{x, f32({5, 5, 2, 3})}, attributes(1, 0), "the padded image is smaller"},
          {{x, weight}, attributes(0, 0), "stride [0,0]: use two numbers"},
          {{x, weight}, attributes(1, -1), "padding [-1,-1]: use two numbers"},
          {{x, weight}, {{"stride", Ints{1}}, {"padding", Ints{0, 0}}}, "stride [1]: use two"},
          {{x, {ir::DType::kBF16, {3, 3, 2, 3}}}, attributes(1, 0), "one floating dtype"}};
}

}  // namespace

// y[n,p,q,o] = sum over i,j,c of x[n, p stride + i - padding, q stride + j - padding, c] w[i,j,c,o]
const OpDef conv2d_op = {
    .name = "conv2d",
    .doc =
        "Convolution of images x[N,H,W,C], channels last, with weight[h,w,C,O]; zeros around the "
        "image. aten.convolution on permuted operands.",
    .operands = {"x", "weight"},
    .attributes = {{"stride", AttributeKind::kInts}, {"padding", AttributeKind::kInts}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .cost = conv_cost,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
