#pragma once

#include <cstdint>

#include "ops/op_def.h"

// What the convolution and its two gradients share. Images lie channels last, [batch, height,
// width, channels], as the library likes them best; weights are [height, width, in, out].
namespace monograph::ops {

struct Window {
  int64_t kernel_height = 0, kernel_width = 0;
  int64_t stride_height = 1, stride_width = 1;
  int64_t padding_height = 0, padding_width = 0;  // on both sides

  int64_t out_height(int64_t height) const {
    return (height + 2 * padding_height - kernel_height) / stride_height + 1;
  }
  int64_t out_width(int64_t width) const {
    return (width + 2 * padding_width - kernel_width) / stride_width + 1;
  }
};

struct ConvSizes {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  int64_t out_height = 0, out_width = 0, out_channels = 0;
  Window window;

  double num_products() const;
};

// Attributes "stride" and "padding" of two numbers each. UserError unless they are, strides from 1,
// padding from 0.
Window window_of(const InferContext& context, int64_t kernel_height, int64_t kernel_width);
Window window_of(const ir::Node& node, int64_t kernel_height, int64_t kernel_width);

// Two numbers of an attribute. UserError unless there are two, from `least` on.
std::pair<int64_t, int64_t> pair_of(const InferContext& context, const std::string& name,
                                    int64_t least);
std::pair<int64_t, int64_t> pair_of(const ir::Node& node, const std::string& name);

ConvSizes conv_sizes(const ir::Shape& x, const ir::Shape& weight, const Window& window);
// Sizes of a node of one of the three ops.
ConvSizes conv_sizes(const ir::Node& node);
// UserError unless x and weight fit and the window fits into the image; the result's type.
ir::TensorType infer_conv(const InferContext& context, const ir::TensorType& x,
                          const ir::TensorType& weight);
Cost conv_cost(const ir::Node& node);

// Calls visit(x, weight, y) with the row-major positions of every pair of factors and where their
// product is added, out_channels at a time: weight and y are the first of a row.
template <typename Visit>
void for_each_product_row(const ConvSizes& s, const Visit& visit) {
  const Window& w = s.window;
  int64_t y = 0;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t out_row = 0; out_row < s.out_height; ++out_row) {
      for (int64_t out_column = 0; out_column < s.out_width; ++out_column, y += s.out_channels) {
        for (int64_t i = 0; i < w.kernel_height; ++i) {
          const int64_t row = out_row * w.stride_height + i - w.padding_height;
          if (row < 0 || row >= s.height) continue;
          for (int64_t j = 0; j < w.kernel_width; ++j) {
            const int64_t column = out_column * w.stride_width + j - w.padding_width;
            if (column < 0 || column >= s.width) continue;
            const int64_t x = ((n * s.height + row) * s.width + column) * s.channels;
            const int64_t weight = (i * w.kernel_width + j) * s.channels;
            for (int64_t c = 0; c < s.channels; ++c) {
              visit(x + c, (weight + c) * s.out_channels, y);
            }
          }
        }
      }
    }
  }
}

// y += convolution of x and weight, and its two gradients.
template <typename T>
void convolve(const ConvSizes& s, const T* x, const T* weight, T* y) {
  for_each_product_row(s, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
    for (int64_t o = 0; o < s.out_channels; ++o) y[at_y + o] += x[at_x] * weight[at_w + o];
  });
}
template <typename T>
void convolve_backward_data(const ConvSizes& s, const T* grad_y, const T* weight, T* grad_x) {
  for_each_product_row(s, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
    for (int64_t o = 0; o < s.out_channels; ++o)
      grad_x[at_x] += grad_y[at_y + o] * weight[at_w + o];
  });
}
template <typename T>
void convolve_backward_weight(const ConvSizes& s, const T* x, const T* grad_y, T* grad_weight) {
  for_each_product_row(s, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
    for (int64_t o = 0; o < s.out_channels; ++o)
      grad_weight[at_w + o] += x[at_x] * grad_y[at_y + o];
  });
}

}  // namespace monograph::ops
