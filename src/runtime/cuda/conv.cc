#include "runtime/cuda/conv.h"

#include <algorithm>

#include "base/error.h"

namespace monograph::runtime {
namespace {

using Direction = ir::ConvStep::Direction;

constexpr int64_t kAlignment = 256;

// As the kernels have them.
struct Window {
  int64_t batch, height, width, channels, out_height, out_width, out_channels;
  int32_t kernel[2], stride[2], padding[2];
};

Window window_of(const ir::ImageSizes& s, int64_t out_channels) {
  Window window = {s.batch,     s.height,     s.width, s.channels, s.out_height,
                   s.out_width, out_channels, {},      {},         {}};
  for (int i = 0; i < 2; ++i) {
    window.kernel[i] = static_cast<int32_t>(s.kernel[i]);
    window.stride[i] = static_cast<int32_t>(s.stride[i]);
    window.padding[i] = static_cast<int32_t>(s.padding[i]);
  }
  return window;
}

void launch_over(const device::cuda::Stream& stream, CUfunction function, int64_t num_threads,
                 void** arguments) {
  constexpr unsigned kThreads = 256;
  constexpr int64_t kMostBlocks = int64_t{1} << 30;  // the kernels go on in strides
  const auto num_blocks = static_cast<unsigned>(
      std::clamp<int64_t>((num_threads + kThreads - 1) / kThreads, 1, kMostBlocks));
  device::cuda::launch(stream, function, {{num_blocks, 1, 1}, {kThreads, 1, 1}, 0}, arguments);
}

}  // namespace

bool is_product(const ir::ConvStep& step) {
  const ir::ImageSizes& s = step.sizes;
  const auto is = [](const std::array<int64_t, 2>& pair, int64_t value) {
    return pair[0] == value && pair[1] == value;
  };
  return is(s.kernel, 1) && is(s.stride, 1) && is(s.padding, 0);
}

ir::GemmStep product_of(const ir::ConvStep& step) {
  const int64_t pixels = step.sizes.batch * step.sizes.height * step.sizes.width;
  const int64_t in = step.sizes.channels, out = step.out_channels;
  ir::GemmStep gemm;
  gemm.dtype = gemm.result_dtype = step.dtype;
  switch (step.direction) {
    case Direction::kForward:  // y = x w
      gemm.m = pixels, gemm.n = out, gemm.k = in;
      gemm.a = step.x, gemm.b = step.weight, gemm.c = step.y;
      gemm.lda = in, gemm.ldb = out, gemm.ldc = out;
      break;
    case Direction::kBackwardData:  // dx = dy w'
      gemm.transpose_b = true;
      gemm.m = pixels, gemm.n = in, gemm.k = out;
      gemm.a = step.y, gemm.b = step.weight, gemm.c = step.x;
      gemm.lda = out, gemm.ldb = out, gemm.ldc = in;
      break;
    case Direction::kBackwardWeight:  // dw = x' dy
      gemm.transpose_a = true;
      gemm.m = in, gemm.n = out, gemm.k = pixels;
      gemm.a = step.x, gemm.b = step.y, gemm.c = step.weight;
      gemm.lda = in, gemm.ldb = out, gemm.ldc = out;
      break;
  }
  return gemm;
}

CudaConv::CudaConv(const ir::ConvStep& step, const Locate& locate, const BuiltinKernels& kernels,
                   const Cudnn& cudnn, bool allows_tf32)
    : step_(step),
      at_{locate(step.x), locate(step.weight), locate(step.y)},
      kernels_(&kernels.images(step.dtype)),
      library_(make_cudnn_conv(step, at_, cudnn, allows_tf32)) {}

int64_t CudaConv::turned_bytes() const {
  const ir::ImageSizes& s = step_.sizes;
  const int64_t num_bytes =
      s.kernel[0] * s.kernel[1] * s.channels * step_.out_channels * ir::dtype_bytes(step_.dtype);
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t CudaConv::workspace_bytes() const {
  return refusal().empty() ? turned_bytes() + library_->workspace_bytes() : 0;
}

void CudaConv::set_workspace(CUdeviceptr workspace) {
  turned_ = workspace;
  set_conv_weight(*library_, turned_);
  library_->set_workspace(workspace + turned_bytes());
}

void CudaConv::turn(const device::cuda::Stream& stream, CUdeviceptr from, CUdeviceptr to,
                    int64_t rows, int64_t columns) const {
  constexpr int64_t kTile = 32;
  void* arguments[] = {&from, &to, &rows, &columns, nullptr};
  const auto tiles = [](int64_t extent) {
    return static_cast<unsigned>((extent + kTile - 1) / kTile);
  };
  device::cuda::launch(stream, kernels_->turn, {{tiles(columns), tiles(rows), 1}, {32, 8, 1}, 0},
                       arguments);
}

void CudaConv::run(const device::cuda::Stream& stream) const {
  if (!refusal().empty()) return run_own(stream);
  const ir::ImageSizes& s = step_.sizes;
  const int64_t taps = s.kernel[0] * s.kernel[1] * s.channels;
  const bool is_written = step_.direction == Direction::kBackwardWeight;
  if (!is_written) turn(stream, at_.weight, turned_, taps, step_.out_channels);
  library_->run(stream);
  if (is_written) turn(stream, turned_, at_.weight, step_.out_channels, taps);
}

void CudaConv::search(const device::cuda::Stream& stream) const {
  if (refusal().empty()) library_->search(stream);
}

void CudaConv::run_own(const device::cuda::Stream& stream) const {
  Window window = window_of(step_.sizes, step_.out_channels);
  ConvAddresses at = at_;
  void* arguments[] = {&window, &at.x, &at.weight, &at.y, nullptr};
  switch (step_.direction) {
    case Direction::kForward:
      return launch_over(stream, kernels_->conv,
                         window.batch * window.out_height * window.out_width * window.out_channels,
                         arguments);
    case Direction::kBackwardData:
      return launch_over(stream, kernels_->conv_backward_data,
                         window.batch * window.height * window.width * window.channels, arguments);
    case Direction::kBackwardWeight:
      return launch_over(
          stream, kernels_->conv_backward_weight,
          int64_t{window.kernel[0]} * window.kernel[1] * window.channels * window.out_channels,
          arguments);
  }
}

CudaMaxPool::CudaMaxPool(const ir::MaxPoolStep& step, const CudaConv::Locate& locate,
                         const BuiltinKernels& kernels)
    : step_(step),
      x_(locate(step.x)),
      y_(locate(step.y)),
      grad_x_(step.is_backward ? locate(step.grad_x) : 0) {
  constexpr int64_t kLoadBytes = 16;
  const BuiltinKernels::Images& images = kernels.images(step.dtype);
  const int64_t wide = kLoadBytes / ir::dtype_bytes(step.dtype);
  const bool is_wide = step.sizes.channels % wide == 0;
  channels_ = is_wide ? wide : 1;
  if (step.is_backward) {
    function_ = is_wide ? images.max_pool_backward_wide : images.max_pool_backward;
  } else {
    function_ = is_wide ? images.max_pool_wide : images.max_pool;
  }
}

void CudaMaxPool::run(const device::cuda::Stream& stream) const {
  Window window = window_of(step_.sizes, step_.sizes.channels);
  CUdeviceptr x = x_, y = y_, grad_x = grad_x_;
  void* arguments[] = {&window, &x, &y, step_.is_backward ? &grad_x : nullptr, nullptr};
  // Backward, a thread makes two by two pixels of an image.
  const int64_t num_pixels = step_.is_backward ? (window.height + 1) / 2 * ((window.width + 1) / 2)
                                               : window.out_height * window.out_width;
  constexpr int64_t kThreads = 256, kMostImages = 65535;
  const int64_t num_threads = num_pixels * window.channels / channels_;
  const auto num_blocks = static_cast<unsigned>((num_threads + kThreads - 1) / kThreads);
  const auto num_images = static_cast<unsigned>(std::min(window.batch, kMostImages));
  device::cuda::launch(stream, function_, {{num_blocks, num_images, 1}, {kThreads, 1, 1}, 0},
                       arguments);
}

}  // namespace monograph::runtime
