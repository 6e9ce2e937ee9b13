#include "runtime/cpu/attention/attention.h"

#include "base/error.h"

namespace monograph::runtime {
namespace {

void check_step(const ir::AttentionStep& step) {
  check(step.dtype == ir::DType::kF32 || step.dtype == ir::DType::kBF16 ||
            step.dtype == ir::DType::kF64,
        "attention of {}", ir::dtype_name(step.dtype));
  if (step.dtype != ir::DType::kF64 && step.width > attention::kMaxWidth) {
    throw_user_error("attention with heads of width {} on the CPU: use up to {}, or more heads",
                     step.width, attention::kMaxWidth);
  }
}

}  // namespace

const attention::Kernel& Attention::best_kernel() {
  if (const attention::Kernel* kernel = attention::avx512_kernel()) return *kernel;
  if (const attention::Kernel* kernel = attention::avx2_kernel()) return *kernel;
  return attention::portable_kernel();
}

Attention::Attention(const ir::AttentionStep& step,
                     const std::function<std::byte*(const ir::Address&)>& memory,
                     const attention::Kernel& kernel)
    : is_backward_(step.is_backward), kernel_(kernel) {
  check_step(step);
  const auto tensor = [&](const ir::AttentionStep::Tensor& given) {
    return attention::Tensor{memory(given.address), given.strides[0], given.strides[1],
                             given.strides[2]};
  };
  task_.batch = step.batch;
  task_.heads = step.heads;
  task_.kv_heads = step.kv_heads;
  task_.queries = step.queries;
  task_.keys = step.keys;
  task_.width = step.width;
  task_.causal = step.causal;
  task_.dtype = step.dtype;
  task_.scale = step.scale;
  task_.q = tensor(step.q);
  task_.k = tensor(step.k);
  task_.v = tensor(step.v);
  task_.output = tensor(step.output);
  task_.logsumexp = tensor(step.logsumexp);
  if (!is_backward_) return;
  task_.grad_output = tensor(step.grad_output);
  task_.grad_q = tensor(step.grad_q);
  task_.grad_k = tensor(step.grad_k);
  task_.grad_v = tensor(step.grad_v);
  auto* const workspace = reinterpret_cast<float*>(memory(step.workspace));
  task_.delta = workspace;
  task_.num_splits = step.num_splits;
  task_.keys_per_split = step.keys_per_split();
  task_.padded_width = step.padded_width();
  if (step.has_parts()) task_.grad_q_parts = workspace + step.num_deltas();
}

void Attention::run() const {
  if (task_.dtype == ir::DType::kF64) {
    is_backward_ ? attention::backward_in_double(task_) : attention::forward_in_double(task_);
    return;
  }
  is_backward_ ? run_backward() : run_forward();
}

void Attention::run_forward() const {
  const int64_t size = kernel_.queries_per_job;
  const int64_t num_blocks = (task_.queries + size - 1) / size;
  // The last blocks of a causal head are the longest: they go first, so that the end is even.
#pragma omp parallel for collapse(3) schedule(dynamic)
  for (int64_t batch = 0; batch < task_.batch; ++batch) {
    for (int64_t head = 0; head < task_.heads; ++head) {
      for (int64_t block = 0; block < num_blocks; ++block) {
        kernel_.forward(task_, batch, head, (num_blocks - 1 - block) * size);
      }
    }
  }
}

void Attention::run_backward() const {
#pragma omp parallel
  {
#pragma omp for collapse(2)
    for (int64_t batch = 0; batch < task_.batch; ++batch) {
      for (int64_t head = 0; head < task_.heads; ++head) kernel_.delta(task_, batch, head);
    }
#pragma omp for collapse(3) schedule(dynamic)
    for (int64_t batch = 0; batch < task_.batch; ++batch) {
      for (int64_t head = 0; head < task_.kv_heads; ++head) {
        for (int64_t split = 0; split < task_.num_splits; ++split) {
          kernel_.backward(task_, batch, head, split);
        }
      }
    }
    if (task_.grad_q_parts != nullptr) {
#pragma omp for collapse(2)
      for (int64_t batch = 0; batch < task_.batch; ++batch) {
        for (int64_t head = 0; head < task_.heads; ++head) kernel_.sum_parts(task_, batch, head);
      }
    }
  }
}

}  // namespace monograph::runtime
