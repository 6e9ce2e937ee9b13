#pragma once

#include "ops/conv/convolution.h"

// What max_pool2d and its gradient share.
namespace monograph::ops {

struct PoolSizes {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  int64_t out_height = 0, out_width = 0;
  Window window;
};

// UserError unless x is an image and the window, attributes "kernel", "stride" and "padding", fits
// it; padding at most half the kernel, so that each window has an element.
PoolSizes pool_sizes(const InferContext& context, const ir::TensorType& x);
PoolSizes pool_sizes(const ir::Node& node, const ir::Shape& x);

// Calls visit(y, x) with the row-major positions of each result and of the largest element in its
// window: the first of equal ones, and a NaN before all, as PyTorch has it.
template <typename Elements, typename Visit>
void for_each_maximum(const PoolSizes& s, int64_t image, const Elements& x, const Visit& visit) {
  const Window& w = s.window;
  int64_t y = image * s.out_height * s.out_width * s.channels;
  for (int64_t out_row = 0; out_row < s.out_height; ++out_row) {
    const int64_t top = out_row * w.stride_height - w.padding_height;
    const int64_t first_row = top < 0 ? 0 : top;
    const int64_t end_row = top + w.kernel_height < s.height ? top + w.kernel_height : s.height;
    for (int64_t out_column = 0; out_column < s.out_width; ++out_column) {
      const int64_t left = out_column * w.stride_width - w.padding_width;
      const int64_t first = left < 0 ? 0 : left;
      const int64_t end = left + w.kernel_width < s.width ? left + w.kernel_width : s.width;
      for (int64_t c = 0; c < s.channels; ++c, ++y) {
        int64_t best = ((image * s.height + first_row) * s.width + first) * s.channels + c;
        for (int64_t row = first_row; row < end_row; ++row) {
          for (int64_t column = first; column < end; ++column) {
            const int64_t at = ((image * s.height + row) * s.width + column) * s.channels + c;
            if (x[at] > x[best] || (x[at] != x[at] && x[best] == x[best])) best = at;
          }
        }
        visit(y, best);
      }
    }
  }
}

}  // namespace monograph::ops
