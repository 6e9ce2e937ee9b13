#include "runtime/cuda/cudnn_attention.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "runtime/cuda/cudnn_plan.h"

namespace monograph::runtime {
namespace {

enum Uid : int64_t { kQ = 1, kK, kV, kOutput, kLogsumexp, kGradOutput, kGradQ, kGradK, kGradV };

TensorPtr tensor(fe::graph::Graph& graph, Uid uid, int64_t heads, int64_t positions, int64_t width,
                 const std::array<int64_t, 3>& strides, int64_t batch) {
  return graph.tensor(
      fe::graph::Tensor_attributes()
          .set_uid(uid)
          .set_dim({batch, heads, positions, width})
          .set_stride({strides[0], strides[1], strides[2], 1})
          .set_data_type(width == 1 ? fe::DataType_t::FLOAT : fe::DataType_t::BFLOAT16));
}

void place(const TensorPtr& result, Uid uid, const std::array<int64_t, 3>& strides) {
  result->set_output(true).set_uid(uid).set_stride({strides[0], strides[1], strides[2], 1});
}

void describe_forward(fe::graph::Graph& graph, const ir::AttentionStep& s) {
  const TensorPtr q = tensor(graph, kQ, s.heads, s.queries, s.width, s.q.strides, s.batch);
  const TensorPtr k = tensor(graph, kK, s.kv_heads, s.keys, s.width, s.k.strides, s.batch);
  const TensorPtr v = tensor(graph, kV, s.kv_heads, s.keys, s.width, s.v.strides, s.batch);
  auto options = fe::graph::SDPA_attributes().set_generate_stats(true).set_attn_scale(
      static_cast<float>(s.scale));
  if (s.causal && s.queries == s.keys) options.set_causal_mask(true);
  if (s.causal && s.queries != s.keys) options.set_causal_mask_bottom_right(true);
  auto [output, logsumexp] = graph.sdpa(q, k, v, options);
  output->set_dim({s.batch, s.heads, s.queries, s.width});
  place(output, kOutput, s.output.strides);
  logsumexp->set_dim({s.batch, s.heads, s.queries, 1}).set_data_type(fe::DataType_t::FLOAT);
  place(logsumexp, kLogsumexp, s.logsumexp.strides);
}

void describe_backward(fe::graph::Graph& graph, const ir::AttentionStep& s) {
  const TensorPtr q = tensor(graph, kQ, s.heads, s.queries, s.width, s.q.strides, s.batch);
  const TensorPtr k = tensor(graph, kK, s.kv_heads, s.keys, s.width, s.k.strides, s.batch);
  const TensorPtr v = tensor(graph, kV, s.kv_heads, s.keys, s.width, s.v.strides, s.batch);
  const TensorPtr output =
      tensor(graph, kOutput, s.heads, s.queries, s.width, s.output.strides, s.batch);
  const TensorPtr grad_output =
      tensor(graph, kGradOutput, s.heads, s.queries, s.width, s.grad_output.strides, s.batch);
  const TensorPtr logsumexp =
      tensor(graph, kLogsumexp, s.heads, s.queries, 1, s.logsumexp.strides, s.batch);
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_attn_scale(static_cast<float>(s.scale))
                     .set_deterministic_algorithm(s.is_deterministic);
  if (s.causal && s.queries == s.keys) options.set_causal_mask(true);
  if (s.causal && s.queries != s.keys) options.set_causal_mask_bottom_right(true);
  auto [grad_q, grad_k, grad_v] =
      graph.sdpa_backward(q, k, v, output, grad_output, logsumexp, options);
  grad_q->set_dim({s.batch, s.heads, s.queries, s.width});
  grad_k->set_dim({s.batch, s.kv_heads, s.keys, s.width});
  grad_v->set_dim({s.batch, s.kv_heads, s.keys, s.width});
  place(grad_q, kGradQ, s.grad_q.strides);
  place(grad_k, kGradK, s.grad_k.strides);
  place(grad_v, kGradV, s.grad_v.strides);
}

std::string signature(const ir::AttentionStep& s) {
  std::string text = fmt::format("attention {} {} {} {} {}/{} {} {} {} {}", s.is_backward, s.causal,
                                 s.is_deterministic, s.batch, s.heads, s.kv_heads, s.queries,
                                 s.keys, s.width, s.scale);
  for (const auto* each : {&s.q, &s.k, &s.v, &s.output, &s.logsumexp, &s.grad_output, &s.grad_q,
                           &s.grad_k, &s.grad_v}) {
    text += fmt::format(" {}", fmt::join(each->strides, ","));
  }
  return text;
}

void describe(CudnnPlan& plan, const ir::AttentionStep& step) {
  if (step.dtype != ir::DType::kBF16) {
    plan.refusal =
        fmt::format("its fused attention takes bf16, the step is {}", ir::dtype_name(step.dtype));
    return;
  }
  plan.is_searched = false;  // timed alone, its plans rank otherwise than in a step
  plan.graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (step.is_backward) {
    if (!step.is_deterministic) plan.excluded.clear();
    describe_backward(plan.graph, step);
  } else {
    describe_forward(plan.graph, step);
  }
}

}  // namespace

std::shared_ptr<CudnnStep> make_cudnn_attention(const ir::AttentionStep& step,
                                                const CudaAttention::Locate& locate,
                                                const Cudnn& cudnn) {
  CudnnStep::Pointers pointers;
  const auto point = [&](Uid uid, const ir::AttentionStep::Tensor& tensor) {
    pointers[uid] = device::cuda::to_pointer(locate(tensor.address));
  };
  point(kQ, step.q);
  point(kK, step.k);
  point(kV, step.v);
  point(kOutput, step.output);
  point(kLogsumexp, step.logsumexp);
  if (step.is_backward) {
    point(kGradOutput, step.grad_output);
    point(kGradQ, step.grad_q);
    point(kGradK, step.grad_k);
    point(kGradV, step.grad_v);
  }
  const auto plan = cudnn.plan(signature(step), [&](CudnnPlan& fresh) { describe(fresh, step); });
  return std::make_shared<CudnnStep>(plan, std::move(pointers));
}

}  // namespace monograph::runtime
