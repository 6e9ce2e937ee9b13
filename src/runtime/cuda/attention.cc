#include "runtime/cuda/attention.h"

#include "base/error.h"

namespace monograph::runtime {

CudaAttention::CudaAttention(const ir::AttentionStep& step, const Locate& locate,
                             const BuiltinKernels& kernels)
    : is_backward_(step.is_backward) {
  if (step.width > ir::AttentionStep::kMaxWidth) {
    throw_user_error("attention with heads of width {} on a GPU: use at most {}", step.width,
                     ir::AttentionStep::kMaxWidth);
  }
  kernels_ = kernels.attention(step.dtype, step.width);
  const auto tensor = [&](const ir::AttentionStep::Tensor& from) {
    return Tensor{locate(from.address), from.strides[0], from.strides[1], from.strides[2]};
  };
  arguments_ = {.q = tensor(step.q),
                .k = tensor(step.k),
                .v = tensor(step.v),
                .output = tensor(step.output),
                .logsumexp = tensor(step.logsumexp),
                .num_batches = static_cast<int>(step.batch),
                .heads = static_cast<int>(step.heads),
                .kv_heads = static_cast<int>(step.kv_heads),
                .queries = static_cast<int>(step.queries),
                .keys = static_cast<int>(step.keys),
                .width = static_cast<int>(step.width),
                .causal = step.causal ? 1 : 0,
                .scale = step.scale};
  if (!is_backward_) return;
  arguments_.grad_output = tensor(step.grad_output);
  arguments_.grad_q = tensor(step.grad_q);
  arguments_.grad_k = tensor(step.grad_k);
  arguments_.grad_v = tensor(step.grad_v);
}

void CudaAttention::launch(const device::cuda::Stream& stream, CUfunction function,
                           int64_t num_rows) const {
  constexpr int kThreads = 128, kRows = kThreads / 32;
  Arguments copy = arguments_;
  void* pointers[] = {&copy};
  const auto num_blocks = static_cast<unsigned>((num_rows + kRows - 1) / kRows);
  device::cuda::launch(stream, function, {{num_blocks, 1, 1}, {kThreads, 1, 1}, 0}, pointers);
}

void CudaAttention::run(const device::cuda::Stream& stream) const {
  const Arguments& a = arguments_;
  const int64_t num_queries = int64_t{a.num_batches} * a.heads * a.queries;
  if (!is_backward_) return launch(stream, kernels_.forward, num_queries);
  launch(stream, kernels_.grad_q, num_queries);
  launch(stream, kernels_.grad_kv, int64_t{a.num_batches} * a.kv_heads * a.keys);
}

}  // namespace monograph::runtime
