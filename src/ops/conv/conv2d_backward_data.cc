#include "ops/builder.h"
#include "ops/conv/convolution.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

using Ints = std::vector<int64_t>;

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType &grad = context.operands[0], &weight = context.operands[1];
  if (grad.shape.rank() != 4 || weight.shape.rank() != 4) {
    context.fail("operands are {} and {}: use [batch,height,width,out] and [height,width,in,out]",
                 grad.str(), weight.str());
  }
  const auto [height, width] = pair_of(context, "size", 1);
  const ir::TensorType x{grad.dtype, {grad.shape[0], height, width, weight.shape[2]}};
  const ir::TensorType y = infer_conv(context, x, weight);
  if (y != grad) {
    context.fail("operand 'grad' is {}, but the convolution of {} gives {}", grad.str(), x.str(),
                 y.str());
  }
  return {x};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const std::vector<double> grad = read_elements<double>(*operands[0]);
  const std::vector<double> weight = read_elements<double>(*operands[1]);
  std::vector<double> x(results[0].num_elements());
  convolve_backward_data(conv_sizes(node), grad.data(), weight.data(), x.data());
  write_elements(x, results[0]);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Value grad = node.operand(0), weight = node.operand(1);
  ir::Attributes forward = node.attributes();
  forward.erase("size");
  ir::Attributes of_weight = forward;
  of_weight["kernel"] = Ints{weight.shape()[0], weight.shape()[1]};
  return {b.emit("conv2d", {cotangents[0], weight}, forward),
          b.emit("conv2d_backward_weight", {cotangents[0], grad}, of_weight)};
}

ir::Attributes attributes(Ints size, int64_t stride, int64_t padding) {
  return {{"size", std::move(size)},
          {"stride", Ints{stride, stride}},
          {"padding", Ints{padding, padding}}};
}

std::vector<Sample> samples() {
  const auto sample = [](ir::Shape grad, ir::Shape weight, ir::Attributes attributes) {
    return Sample{
        .operands = {{{ir::DType::kF32, std::move(grad)}}, {{ir::DType::kF32, std::move(weight)}}},
        .attributes = std::move(attributes)};
  };
  return {sample({1, 4, 5, 3}, {3, 3, 2, 3}, attributes({4, 5}, 1, 1)),
          sample({2, 2, 2, 2}, {1, 1, 3, 2}, attributes({4, 3}, 2, 0)),
          sample({1, 4, 4, 4}, {7, 7, 3, 4}, attributes({8, 8}, 2, 3)),
          {.operands = {{{ir::DType::kF64, {1, 2, 2, 2}}}, {{ir::DType::kF64, {2, 2, 2, 2}}}},
           .attributes = attributes({3, 3}, 1, 0)}};
}

std::vector<BadSample> bad_samples() {
  const auto f32 = [](ir::Shape shape) {
    return ir::TensorType{ir::DType::kF32, std::move(shape)};
  };
  const ir::TensorType weight = f32({3, 3, 2, 3});
  return {{{f32({1, 2, 3, 3}), weight},
           attributes({4, 4}, 1, 0),
           "operand 'grad' is f32[1,2,3,3], but the convolution of f32[1,4,4,2] gives"},
          {{f32({2, 3, 3}), weight}, attributes({4, 4}, 1, 0), "operands are f32[2,3,3] and"},
          {{f32({1, 2, 2, 3}), weight}, attributes({4}, 1, 0), "size [4]: use two numbers"}};
}

}  // namespace

const OpDef conv2d_backward_data_op = {
    .name = "conv2d_backward_data",
    .doc =
        "The gradient of the images of conv2d from that of its result, grad[N,P,Q,O], and its "
        "weights; size: of the images, [H,W].",
    .operands = {"grad", "weight"},
    .attributes = {{"size", AttributeKind::kInts},
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
