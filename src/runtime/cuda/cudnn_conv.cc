#include "runtime/cuda/cudnn_conv.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "runtime/cuda/cudnn_plan.h"

namespace monograph::runtime {
namespace {

using Direction = ir::ConvStep::Direction;

enum Uid : int64_t { kX = 1, kWeight, kY };

// Dims in cuDNN's order, channels second, with the strides of channels last.
fe::graph::Tensor_attributes image(Uid uid, int64_t batch, int64_t channels, int64_t height,
                                   int64_t width) {
  return fe::graph::Tensor_attributes()
      .set_uid(uid)
      .set_dim({batch, channels, height, width})
      .set_stride({height * width * channels, 1, width * channels, channels});
}

void describe(CudnnPlan& plan, const ir::ConvStep& step, bool allows_tf32) {
  const ir::ImageSizes& s = step.sizes;
  const bool is_bf16 = step.dtype == ir::DType::kBF16;
  if (!is_bf16 && step.dtype != ir::DType::kF32) {
    plan.refusal = fmt::format("it is asked for f32 and bf16 only, the step is {}",
                               ir::dtype_name(step.dtype));
    return;
  }
  plan.sources = {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK};
  if (!is_bf16 && !allows_tf32) plan.excluded.push_back(fe::NumericalNote_t::TENSOR_CORE);
  plan.graph.set_io_data_type(is_bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto x_image = image(kX, s.batch, s.channels, s.height, s.width);
  const auto y_image = image(kY, s.batch, step.out_channels, s.out_height, s.out_width);
  const auto weights = image(kWeight, step.out_channels, s.channels, s.kernel[0], s.kernel[1]);
  const auto set = [&](auto&& options) {
    return options.set_padding({s.padding[0], s.padding[1]})
        .set_stride({s.stride[0], s.stride[1]})
        .set_dilation({1, 1});
  };
  const auto finish = [](const TensorPtr& result, const fe::graph::Tensor_attributes& as) {
    result->set_output(true)
        .set_uid(as.get_uid())
        .set_dim(as.get_dim())
        .set_stride(as.get_stride());
  };
  switch (step.direction) {
    case Direction::kForward:
      return finish(plan.graph.conv_fprop(plan.graph.tensor(x_image), plan.graph.tensor(weights),
                                          set(fe::graph::Conv_fprop_attributes())),
                    y_image);
    case Direction::kBackwardData:
      return finish(plan.graph.conv_dgrad(plan.graph.tensor(y_image), plan.graph.tensor(weights),
                                          set(fe::graph::Conv_dgrad_attributes())),
                    x_image);
    case Direction::kBackwardWeight:
      return finish(plan.graph.conv_wgrad(plan.graph.tensor(y_image), plan.graph.tensor(x_image),
                                          set(fe::graph::Conv_wgrad_attributes())),
                    weights);
  }
}

std::string signature(const ir::ConvStep& step) {
  const ir::ImageSizes& s = step.sizes;
  return fmt::format("conv {} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(step.direction),
                     ir::dtype_name(step.dtype), s.batch, s.height, s.width, s.channels,
                     s.out_height, s.out_width, step.out_channels, fmt::join(s.kernel, ","),
                     fmt::join(s.stride, ","), fmt::join(s.padding, ","));
}

}  // namespace

std::shared_ptr<CudnnStep> make_cudnn_conv(const ir::ConvStep& step, const ConvAddresses& at,
                                           const Cudnn& cudnn, bool allows_tf32) {
  const auto plan =
      cudnn.plan(signature(step), [&](CudnnPlan& fresh) { describe(fresh, step, allows_tf32); });
  return std::make_shared<CudnnStep>(
      plan, CudnnStep::Pointers{{kX, device::cuda::to_pointer(at.x)},
                                {kWeight, device::cuda::to_pointer(at.weight)},
                                {kY, device::cuda::to_pointer(at.y)}});
}

void set_conv_weight(CudnnStep& step, CUdeviceptr weight) {
  step.set_pointer(kWeight, weight);
}

}  // namespace monograph::runtime
