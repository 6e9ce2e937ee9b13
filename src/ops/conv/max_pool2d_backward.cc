#include "ops/conv/pooling.h"
#include "ops/elements.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

using Ints = std::vector<int64_t>;

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType &grad = context.operands[0], &x = context.operands[1];
  const PoolSizes s = pool_sizes(context, x);
  const ir::TensorType y{x.dtype, {s.batch, s.out_height, s.out_width, s.channels}};
  if (grad != y) {
    context.fail("operand 'grad' is {}: max_pool2d of {} gives {}", grad.str(), x.str(), y.str());
  }
  return {x};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const std::vector<double> grad = read_elements<double>(*operands[0]);
  const std::vector<double> x = read_elements<double>(*operands[1]);
  std::vector<double> grad_x(x.size());
  const PoolSizes sizes = pool_sizes(node, operands[1]->type().shape);
  for (int64_t image = 0; image < sizes.batch; ++image) {
    for_each_maximum(sizes, image, x.data(),
                     [&](int64_t from, int64_t to) { grad_x[to] += grad[from]; });
  }
  write_elements(grad_x, results[0]);
}

ir::Attributes attributes(int64_t kernel, int64_t stride, int64_t padding) {
  return {{"kernel", Ints{kernel, kernel}},
          {"stride", Ints{stride, stride}},
          {"padding", Ints{padding, padding}}};
}

std::vector<Sample> samples() {
  const auto sample = [](ir::DType dtype, ir::Shape grad, ir::Shape x, ir::Attributes attributes) {
    return Sample{.operands = {{{dtype, std::move(grad)}}, {{dtype, std::move(x)}}},
                  .attributes = std::move(attributes),
                  .check_gradient = false};
  };
  return {sample(ir::DType::kF32, {2, 3, 3, 3}, {2, 6, 5, 3}, attributes(3, 2, 1)),
          sample(ir::DType::kF32, {1, 2, 2, 2}, {1, 4, 4, 2}, attributes(2, 2, 0)),
          sample(ir::DType::kF64, {1, 4, 5, 1}, {1, 3, 4, 1}, attributes(2, 1, 1))};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {1, 4, 4, 2}};
  return {{{x, x},
           attributes(2, 2, 0),
           "operand 'grad' is f32[1,4,4,2]: max_pool2d of f32[1,4,4,2] gives f32[1,2,2,2]"}};
}

}  // namespace

const OpDef max_pool2d_backward_op = {
    .name = "max_pool2d_backward",
    .doc =
        "The gradient of the images of max_pool2d from that of its result and the images: all of "
        "it goes to the first of the largest elements of a window.",
    .operands = {"grad", "x"},
    .attributes = {{"kernel", AttributeKind::kInts},
                   {"stride", AttributeKind::kInts},
                   {"padding", AttributeKind::kInts}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
