#include "ops/conv/pooling.h"

namespace monograph::ops {
namespace {

PoolSizes sizes_of(const ir::Shape& x, const Window& window) {
  return {x[0], x[1], x[2], x[3], window.out_height(x[1]), window.out_width(x[2]), window};
}

}  // namespace

PoolSizes pool_sizes(const InferContext& context, const ir::TensorType& x) {
  if (!ir::is_floating(x.dtype) || x.shape.rank() != 4 || x.num_elements() == 0) {
    context.fail("x is {}: use a floating [batch,height,width,channels], no dim of 0", x.str());
  }
  const auto [kernel_height, kernel_width] = pair_of(context, "kernel", 1);
  const Window w = window_of(context, kernel_height, kernel_width);
  if (2 * w.padding_height > kernel_height || 2 * w.padding_width > kernel_width) {
    context.fail("padding [{},{}] for a kernel of [{},{}]: use at most half of it",
                 w.padding_height, w.padding_width, kernel_height, kernel_width);
  }
  if (x.shape[1] + 2 * w.padding_height < kernel_height ||
      x.shape[2] + 2 * w.padding_width < kernel_width) {
    context.fail("a kernel of [{},{}] on an image of {}: the padded image is smaller",
                 kernel_height, kernel_width, x.str());
  }
  return sizes_of(x.shape, w);
}

PoolSizes pool_sizes(const ir::Node& node, const ir::Shape& x) {
  const auto [kernel_height, kernel_width] = pair_of(node, "kernel");
  return sizes_of(x, window_of(node, kernel_height, kernel_width));
}

}  // namespace monograph::ops
