#include "runtime/cuda/builtin_kernels.h"

#include "base/error.h"
#include "device/cuda/nvrtc.h"

namespace monograph::runtime {

const device::cuda::Module& BuiltinKernels::load(const std::string& source) const {
  modules_.push_back(std::make_unique<device::cuda::Module>(
      context_, device::cuda::compile_cubin(source, context_->properties().architecture())));
  return *modules_.back();
}

const BuiltinKernels::Steps& BuiltinKernels::steps() const {
  if (steps_) return *steps_;
  const device::cuda::Module& module = load(step_kernels_source());
  const auto get = [&](const char* name) { return module.function(name); };
  steps_ = {.fill_f32 = get("fill_bias_f32_f32"),
            .fill_bf16 = get("fill_bias_bf16_bf16"),
            .fill_f64 = get("fill_bias_f64_f64"),
            .fill_bf16_f32 = get("fill_bias_bf16_f32"),
            .fill_f32_bf16 = get("fill_bias_f32_bf16"),
            .sort_read_i64 = get("sort_read_i64"),
            .sort_read_i32 = get("sort_read_i32"),
            .sort_count = get("sort_count"),
            .sort_scan = get("sort_scan"),
            .sort_scatter = get("sort_scatter"),
            .sort_offsets = get("sort_offsets")};
  return *steps_;
}

const BuiltinKernels::Attention& BuiltinKernels::attention(ir::DType dtype, int64_t width) const {
  check(dtype == ir::DType::kF32 || dtype == ir::DType::kBF16 || dtype == ir::DType::kF64,
        "attention of {} on a GPU", ir::dtype_name(dtype));
  const auto [found, is_new] = attention_.try_emplace({dtype, (width + 31) / 32});
  if (is_new) {
    const device::cuda::Module& module = load(attention_kernels_source(dtype, width));
    found->second = {module.function("attention"), module.function("attention_grad_q"),
                     module.function("attention_grad_kv")};
  }
  return found->second;
}

const BuiltinKernels::Images& BuiltinKernels::images(ir::DType dtype) const {
  const auto [found, is_new] = images_.try_emplace(dtype);
  if (is_new) {
    const device::cuda::Module& module = load(image_kernels_source(dtype));
    const auto get = [&](const char* name) { return module.function(name); };
    found->second = {.turn = get("turn"),
                     .conv = get("conv"),
                     .conv_backward_data = get("conv_backward_data"),
                     .conv_backward_weight = get("conv_backward_weight"),
                     .max_pool = get("max_pool_1"),
                     .max_pool_backward = get("max_pool_backward_1"),
                     .max_pool_wide = get("max_pool_wide"),
                     .max_pool_backward_wide = get("max_pool_backward_wide")};
  }
  return found->second;
}

void BuiltinKernels::fill_bias(const device::cuda::Stream& stream, const ir::GemmStep& step,
                               CUdeviceptr bias, CUdeviceptr c) const {
  const ir::DType from = step.bias_dtype, to = step.result_dtype;
  const auto is = [&](ir::DType x, ir::DType y) { return from == x && to == y; };
  CUfunction function = nullptr;
  if (is(ir::DType::kF32, ir::DType::kF32)) function = steps().fill_f32;
  if (is(ir::DType::kBF16, ir::DType::kBF16)) function = steps().fill_bf16;
  if (is(ir::DType::kF64, ir::DType::kF64)) function = steps().fill_f64;
  if (is(ir::DType::kBF16, ir::DType::kF32)) function = steps().fill_bf16_f32;
  if (is(ir::DType::kF32, ir::DType::kBF16)) function = steps().fill_f32_bf16;
  check(function != nullptr, "a bias of {} for a product of {}", ir::dtype_name(from),
        ir::dtype_name(to));
  int64_t num_matrices = 1;
  for (const int64_t extent : step.batch) num_matrices *= extent;
  for (int64_t i = 0; i < num_matrices; ++i) {
    int64_t rest = i, offset = 0;
    for (size_t d = step.batch.size(); d-- > 0;) {
      offset += rest % step.batch[d] * step.batch_strides_c[d];
      rest /= step.batch[d];
    }
    CUdeviceptr at = c + offset * ir::dtype_bytes(to);
    long long rows = step.m, columns = step.n, leading = step.ldc;
    int along_rows = step.bias_along_rows ? 1 : 0;
    void* arguments[] = {&bias, &at, &rows, &columns, &leading, &along_rows};
    constexpr unsigned kThreads = 256;
    const auto num_blocks =
        static_cast<unsigned>(std::min<int64_t>((rows * columns - 1) / kThreads + 1, 4096));
    device::cuda::launch(stream, function, {{num_blocks, 1, 1}, {kThreads, 1, 1}, 0}, arguments);
  }
}

}  // namespace monograph::runtime
