#include "ops/builder.h"
#include "ops/conv/pooling.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

using Ints = std::vector<int64_t>;

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const PoolSizes s = pool_sizes(context, x);
  return {{x.dtype, {s.batch, s.out_height, s.out_width, s.channels}}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const std::vector<double> x = read_elements<double>(*operands[0]);
  std::vector<double> y(results[0].num_elements());
  const PoolSizes sizes = pool_sizes(node, operands[0]->type().shape);
  for (int64_t image = 0; image < sizes.batch; ++image) {
    for_each_maximum(sizes, image, x.data(), [&](int64_t to, int64_t from) { y[to] = x[from]; });
  }
  write_elements(y, results[0]);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  return {b.emit("max_pool2d_backward", {cotangents[0], node.operand(0)}, node.attributes())};
}

ir::Attributes attributes(int64_t kernel, int64_t stride, int64_t padding) {
  return {{"kernel", Ints{kernel, kernel}},
          {"stride", Ints{stride, stride}},
          {"padding", Ints{padding, padding}}};
}

std::vector<Sample> samples() {
  const auto sample = [](ir::DType dtype, ir::Shape x, ir::Attributes attributes) {
    return Sample{.operands = {{{dtype, std::move(x)}}}, .attributes = std::move(attributes)};
  };
  return {sample(ir::DType::kF32, {2, 6, 5, 3}, attributes(3, 2, 1)),
          sample(ir::DType::kF32, {1, 4, 4, 2}, attributes(2, 2, 0)),
          sample(ir::DType::kF64, {1, 3, 4, 1}, attributes(2, 1, 1)),
          {.operands = {{{ir::DType::kBF16, {1, 4, 4, 2}}}},
           .attributes = attributes(2, 2, 0),
           .check_gradient = false}};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {1, 4, 4, 2}};
  return {{{{ir::DType::kF32, {4, 4, 2}}}, attributes(2, 2, 0), "x is f32[4,4,2]: use a floating"},
          {{{ir::DType::kI64, {1, 4, 4, 2}}}, attributes(2, 2, 0), "use a floating"},
          {{x}, attributes(3, 2, 2), "padding [2,2] for a kernel of [3,3]: use at most half"},
          {{x}, attributes(5, 1, 0), "the padded image is smaller"}};
}

}  // namespace

const OpDef max_pool2d_op = {
    .name = "max_pool2d",
    .doc =
        "The largest element of each window of images x[N,H,W,C], channels last; what lies around "
        "the image never wins.",
    .operands = {"x"},
    .attributes = {{"kernel", AttributeKind::kInts},
                   {"stride", AttributeKind::kInts},
                   {"padding", AttributeKind::kInts}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
