#include "ops/builder.h"
#include "ops/conv/convolution.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

using Ints = std::vector<int64_t>;

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType &x = context.operands[0], &grad = context.operands[1];
  if (x.shape.rank() != 4 || grad.shape.rank() != 4) {
    context.fail("operands are {} and {}: use [batch,height,width,in] and [batch,height,width,out]",
                 x.str(), grad.str());
  }
  const auto [height, width] = pair_of(context, "kernel", 1);
  const ir::TensorType weight{grad.dtype, {height, width, x.shape[3], grad.shape[3]}};
  const ir::TensorType y = infer_conv(context, x, weight);
  if (y != grad) {
    context.fail("operand 'grad' is {}, but the convolution of {} with {} gives {}", grad.str(),
                 x.str(), weight.str(), y.str());
  }
  return {weight};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const std::vector<double> x = read_elements<double>(*operands[0]);
  const std::vector<double> grad = read_elements<double>(*operands[1]);
  std::vector<double> weight(results[0].num_elements());
  convolve_backward_weight(conv_sizes(node), x.data(), grad.data(), weight.data());
  write_elements(weight, results[0]);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Value x = node.operand(0), grad = node.operand(1);
  ir::Attributes forward = node.attributes();
  forward.erase("kernel");
  ir::Attributes of_data = forward;
  of_data["size"] = Ints{x.shape()[1], x.shape()[2]};
  return {b.emit("conv2d_backward_data", {grad, cotangents[0]}, of_data),
          b.emit("conv2d", {x, cotangents[0]}, forward)};
}

ir::Attributes attributes(Ints kernel, int64_t stride, int64_t padding) {
  return {{"kernel", std::move(kernel)},
          {"stride", Ints{stride, stride}},
          {"padding", Ints{padding, padding}}};
}

std::vector<Sample> samples() {
  const auto sample = [](ir::Shape x, ir::Shape grad, ir::Attributes attributes) {
    return Sample{
        .operands = {{{ir::DType::kF32, std::move(x)}}, {{ir::DType::kF32, std::move(grad)}}},
        .attributes = std::move(attributes)};
  };
  return {sample({1, 4, 5, 2}, {1, 4, 5, 3}, attributes({3, 3}, 1, 1)),
          sample({2, 4, 3, 3}, {2, 2, 2, 2}, attributes({1, 1}, 2, 0)),
          sample({1, 8, 8, 3}, {1, 4, 4, 4}, attributes({7, 7}, 2, 3)),
          {.operands = {{{ir::DType::kF64, {1, 3, 3, 2}}}, {{ir::DType::kF64, {1, 2, 2, 2}}}},
           .attributes = attributes({2, 2}, 1, 0)}};
}

std::vector<BadSample> bad_samples() {
  const auto f32 = [](ir::Shape shape) {
    return ir::TensorType{ir::DType::kF32, std::move(shape)};
  };
  const ir::TensorType x = f32({1, 4, 4, 2});
  return {{{x, f32({1, 2, 3, 3})},
           attributes({3, 3}, 1, 0),
           "operand 'grad' is f32[1,2,3,3], but the convolution of f32[1,4,4,2] with"},
          {{x, f32({2, 3, 3})}, attributes({3, 3}, 1, 0), "operands are f32[1,4,4,2] and"},
          {{x, f32({1, 2, 2, 3})}, attributes({0, 3}, 1, 0), "kernel [0,3]: use two numbers"}};
}

}  // namespace

const OpDef conv2d_backward_weight_op = {
    .name = "conv2d_backward_weight",
    .doc =
        "The gradient of the weights of conv2d from its images and the gradient of its result; "
        "kernel: of the weights, [h,w].",
    .operands = {"x", "grad"},
    .attributes = {{"kernel", AttributeKind::kInts},
                   {"stride", AttributeKind::kInts},
                   {"padding", AttributeKind::kInts}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .cost = conv_cost,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
