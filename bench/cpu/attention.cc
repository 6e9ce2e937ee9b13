// Attention as a C function of NumPy-like arrays, for attention.py to time beside PyTorch's.
#include "runtime/cpu/attention/attention.h"

#include <vector>

namespace {

using monograph::ir::AttentionStep;
using monograph::ir::Segment;

struct Bound {
  AttentionStep step;
  std::vector<void*> tensors;  // in the order of addresses
  std::vector<float> workspace;
};

}  // namespace

extern "C" {

// tensors: q, k, v, output, logsumexp, then grad_output, grad_q, grad_k, grad_v; strides: three of
// each in elements. sizes: batch, heads, kv_heads, queries, keys, width.
void* attention_bind(const int64_t* sizes, bool causal, bool is_bf16, double scale, void** tensors,
                     const int64_t* strides) {
  auto* bound = new Bound{{}, std::vector<void*>(tensors, tensors + 9), {}};
  AttentionStep& step = bound->step;
  step.dtype = is_bf16 ? monograph::ir::DType::kBF16 : monograph::ir::DType::kF32;
  step.causal = causal;
  step.scale = scale;
  step.batch = sizes[0], step.heads = sizes[1], step.kv_heads = sizes[2];
  step.queries = sizes[3], step.keys = sizes[4], step.width = sizes[5];
  int64_t number = 0;
  for (AttentionStep::Tensor* tensor :
       {&step.q, &step.k, &step.v, &step.output, &step.logsumexp, &step.grad_output, &step.grad_q,
        &step.grad_k, &step.grad_v}) {
    tensor->address = {Segment::kInput, number};
    tensor->strides = {strides[3 * number], strides[3 * number + 1], strides[3 * number + 2]};
    ++number;
  }
  step.workspace = {Segment::kScratch, 0};
  step.num_splits = step.wanted_splits();
  bound->workspace.resize(step.workspace_bytes() / 4);
  return bound;
}

void attention_run(void* handle, bool is_backward) {
  auto* bound = static_cast<Bound*>(handle);
  bound->step.is_backward = is_backward;
  const auto memory = [&](const monograph::ir::Address& address) {
    void* const found = address.segment == Segment::kScratch ? bound->workspace.data()
                                                             : bound->tensors[address.offset];
    return static_cast<std::byte*>(found);
  };
  monograph::runtime::Attention(bound->step, memory).run();
}

void attention_free(void* handle) {
  delete static_cast<Bound*>(handle);
}

}  // extern "C"
