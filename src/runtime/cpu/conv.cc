#include "runtime/cpu/conv.h"

#include <algorithm>
#include <dnnl.hpp>
#include <unordered_map>

#include "base/error.h"
#include "ops/conv/convolution.h"
#include "runtime/cpu/aligned_memory.h"

namespace monograph::runtime {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;
using Direction = ir::ConvStep::Direction;

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// For weights in the library's own order. Steps of a thread run one after the other, so they share
// it.
std::byte* weight_memory(int64_t num_bytes) {
  thread_local AlignedMemory shared;
  if (shared.num_bytes() < num_bytes) shared = AlignedMemory(num_bytes);
  return shared.data();
}

struct Descriptions {
  memory::desc x, weight, any_weight, y;
  memory::dims stride, padding;
};

Descriptions describe(const ir::ConvStep& step) {
  const ir::ImageSizes& s = step.sizes;
  const auto type =
      step.dtype == ir::DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
  using Tag = memory::format_tag;
  const memory::dims x = {s.batch, s.channels, s.height, s.width};
  const memory::dims y = {s.batch, step.out_channels, s.out_height, s.out_width};
  const memory::dims weight = {step.out_channels, s.channels, s.kernel[0], s.kernel[1]};
  return {{x, type, Tag::nhwc}, {weight, type, Tag::hwio},  {weight, type, Tag::any},
          {y, type, Tag::nhwc}, {s.stride[0], s.stride[1]}, {s.padding[0], s.padding[1]}};
}

ops::ConvSizes loop_sizes(const ir::ConvStep& step) {
  const ir::ImageSizes& s = step.sizes;
  return {s.batch,
          s.height,
          s.width,
          s.channels,
          s.out_height,
          s.out_width,
          step.out_channels,
          {s.kernel[0], s.kernel[1], s.stride[0], s.stride[1], s.padding[0], s.padding[1]}};
}

}  // namespace

struct Conv::Primitive {
  Primitive(const ir::ConvStep& given, void* x, void* weight, void* y)
      : step(given), x_data(x), weight_data(weight), y_data(y), stream(cpu_engine()) {}

  // Weights are reordered at each run: they change at each step, and are small beside the images.
  template <typename Description>
  void bind(const Descriptions& d, const Description& chosen, const memory::desc& wanted,
            const dnnl::primitive& convolution) {
    primitive = convolution;
    implementation = chosen.impl_info_str();
    const bool is_backward_weight = step.direction == Direction::kBackwardWeight;
    own = memory(d.weight, cpu_engine(), weight_data);
    if (wanted != d.weight) {
      wanted_bytes = static_cast<int64_t>(wanted.get_size());
      reordered = memory(wanted, cpu_engine(), nullptr);
      reorder = is_backward_weight ? dnnl::reorder(reordered, own) : dnnl::reorder(own, reordered);
    }
    const bool is_backward_data = step.direction == Direction::kBackwardData;
    arguments = {
        {is_backward_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, memory(d.x, cpu_engine(), x_data)},
        {step.direction == Direction::kForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
         memory(d.y, cpu_engine(), y_data)},
        {is_backward_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
         wanted_bytes > 0 ? reordered : own}};
  }

  void run() const {
    const bool is_backward_weight = step.direction == Direction::kBackwardWeight;
    if (wanted_bytes > 0) reordered.set_data_handle(weight_memory(wanted_bytes));
    if (wanted_bytes > 0 && !is_backward_weight) reorder.execute(stream, own, reordered);
    primitive.execute(stream, arguments);
    if (wanted_bytes > 0 && is_backward_weight) reorder.execute(stream, reordered, own);
    stream.wait();
  }

  void run_loops() const {
    const ops::ConvSizes sizes = loop_sizes(step);
    auto *const x = static_cast<double*>(x_data), *const y = static_cast<double*>(y_data);
    auto* const weight = static_cast<double*>(weight_data);
    const int64_t num_x = sizes.batch * sizes.height * sizes.width * sizes.channels;
    const int64_t num_y = sizes.batch * sizes.out_height * sizes.out_width * sizes.out_channels;
    const int64_t num_weights = sizes.window.kernel_height * sizes.window.kernel_width *
                                sizes.channels * sizes.out_channels;
    switch (step.direction) {
      case Direction::kForward:
        std::fill_n(y, num_y, 0.0);
        return ops::convolve(sizes, x, weight, y);
      case Direction::kBackwardData:
        std::fill_n(x, num_x, 0.0);
        return ops::convolve_backward_data(sizes, y, weight, x);
      case Direction::kBackwardWeight:
        std::fill_n(weight, num_weights, 0.0);
        return ops::convolve_backward_weight(sizes, x, y, weight);
    }
  }

  ir::ConvStep step;
  void *x_data, *weight_data, *y_data;
  mutable dnnl::stream stream;
  dnnl::primitive primitive;
  dnnl::reorder reorder;
  mutable memory own, reordered;
  int64_t wanted_bytes = 0;  // 0: the weights are used where they are
  std::unordered_map<int, memory> arguments;
  const char* implementation = "loops";
};

Conv::Conv(const ir::ConvStep& step, void* x, void* weight, void* y) {
  auto bound = std::make_shared<Primitive>(step, x, weight, y);
  primitive_ = bound;
  if (step.dtype == ir::DType::kF64) return;
  check(step.dtype == ir::DType::kF32 || step.dtype == ir::DType::kBF16, "conv of {}",
        ir::dtype_name(step.dtype));
  const Descriptions d = describe(step);
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  try {
    const convolution_forward::primitive_desc forward(
        convolution_forward::desc(dnnl::prop_kind::forward_training, kDirect, d.x, d.any_weight,
                                  d.y, d.stride, d.padding, d.padding),
        cpu_engine());
    if (step.direction == Direction::kForward) {
      bound->bind(d, forward, forward.weights_desc(), convolution_forward(forward));
    } else if (step.direction == Direction::kBackwardData) {
      const convolution_backward_data::primitive_desc chosen(
          convolution_backward_data::desc(kDirect, d.x, d.any_weight, d.y, d.stride, d.padding,
                                          d.padding),
          cpu_engine(), forward);
      bound->bind(d, chosen, chosen.weights_desc(), convolution_backward_data(chosen));
    } else {
      const convolution_backward_weights::primitive_desc chosen(
          convolution_backward_weights::desc(kDirect, d.x, d.any_weight, d.y, d.stride, d.padding,
                                             d.padding),
          cpu_engine(), forward);
      bound->bind(d, chosen, chosen.diff_weights_desc(), convolution_backward_weights(chosen));
    }
  } catch (const dnnl::error& error) {
    const ir::ImageSizes& s = step.sizes;
    throw_internal_error("oneDNN refuses the {} convolution of [{},{},{},{}] to {} channels: {}",
                         ir::dtype_name(step.dtype), s.batch, s.height, s.width, s.channels,
                         step.out_channels, error.what());
  }
}

void Conv::run() const {
  if (primitive_->step.dtype == ir::DType::kF64) return primitive_->run_loops();
  primitive_->run();
}

const char* Conv::implementation() const {
  return primitive_->implementation;
}

}  // namespace monograph::runtime
