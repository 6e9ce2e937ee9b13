#include "ops/conv/convolution.h"

namespace monograph::ops {
namespace {

using Ints = std::vector<int64_t>;

ir::Shape shape_of_image(const ConvSizes& s) {
  return {s.batch, s.out_height, s.out_width, s.out_channels};
}

}  // namespace

double ConvSizes::num_products() const {
  return static_cast<double>(batch * out_height * out_width) *
         static_cast<double>(window.kernel_height * window.kernel_width) *
         static_cast<double>(channels * out_channels);
}

std::pair<int64_t, int64_t> pair_of(const InferContext& context, const std::string& name,
                                    int64_t least) {
  const auto& values = context.attribute<Ints>(name);
  if (values.size() != 2 || values[0] < least || values[1] < least) {
    context.fail("{} [{}]: use two numbers, of rows and columns, from {}", name,
                 fmt::join(values, ","), least);
  }
  return {values[0], values[1]};
}

std::pair<int64_t, int64_t> pair_of(const ir::Node& node, const std::string& name) {
  const auto& values = node.attribute<Ints>(name);
  return {values[0], values[1]};
}

Window window_of(const InferContext& context, int64_t kernel_height, int64_t kernel_width) {
  const auto [stride_height, stride_width] = pair_of(context, "stride", 1);
  const auto [padding_height, padding_width] = pair_of(context, "padding", 0);
  return {kernel_height, kernel_width, stride_height, stride_width, padding_height, padding_width};
}

Window window_of(const ir::Node& node, int64_t kernel_height, int64_t kernel_width) {
  const auto [stride_height, stride_width] = pair_of(node, "stride");
  const auto [padding_height, padding_width] = pair_of(node, "padding");
  return {kernel_height, kernel_width, stride_height, stride_width, padding_height, padding_width};
}

ConvSizes conv_sizes(const ir::Shape& x, const ir::Shape& weight, const Window& window) {
  return {x[0],      x[1],  x[2], x[3], window.out_height(x[1]), window.out_width(x[2]),
          weight[3], window};
}

ConvSizes conv_sizes(const ir::Node& node) {
  const bool gives_image = node.is("conv2d_backward_data");
  const bool gives_weight = node.is("conv2d_backward_weight");
  const ir::Shape& x = gives_image ? node.types()[0].shape : node.operand(0).shape();
  const ir::Shape& weight = gives_weight ? node.types()[0].shape : node.operand(1).shape();
  return conv_sizes(x, weight, window_of(node, weight[0], weight[1]));
}

ir::TensorType infer_conv(const InferContext& context, const ir::TensorType& x,
                          const ir::TensorType& weight) {
  if (x.dtype != weight.dtype || !ir::is_floating(x.dtype)) {
    context.fail("operands are {} and {}: both must have one floating dtype, convert them",
                 context.operands[0].str(), context.operands[1].str());
  }
  const bool fits = x.shape.rank() == 4 && weight.shape.rank() == 4 &&
                    x.shape[3] == weight.shape[2] && x.num_elements() > 0 &&
                    weight.num_elements() > 0;
  if (!fits) {
    context.fail(
        "an image of {} and weights of {}: use [batch,height,width,in] and "
        "[height,width,in,out], no dim of 0",
        x.str(), weight.str());
  }
  const ConvSizes sizes =
      conv_sizes(x.shape, weight.shape, window_of(context, weight.shape[0], weight.shape[1]));
  const Window& w = sizes.window;
  if (x.shape[1] + 2 * w.padding_height < w.kernel_height ||
      x.shape[2] + 2 * w.padding_width < w.kernel_width) {
    context.fail("weights of {} on an image of {}: the padded image is smaller", weight.str(),
                 x.str());
  }
  return {x.dtype, shape_of_image(sizes)};
}

Cost conv_cost(const ir::Node& node) {
  double bytes = static_cast<double>(node.types()[0].num_bytes());
  for (ir::Value operand : node.operands()) {
    bytes += static_cast<double>(operand.type().num_bytes());
  }
  return {.flops = 2 * conv_sizes(node).num_products(), .bytes = bytes};
}

}  // namespace monograph::ops
