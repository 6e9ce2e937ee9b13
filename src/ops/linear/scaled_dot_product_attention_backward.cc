#include <cmath>

#include "ops/elements.h"
#include "ops/linear/attention.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  check_attention(context, 1);
  const ir::TensorType& q = context.operands[1];
  check_type(context, 0, q);
  check_type(context, 4, q);
  check_type(context, 5, logsumexp_type(q));
  return {q, context.operands[2], context.operands[3]};
}

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add(double factor, const double* a, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * a[i];
}

// weight = exp(score - logsumexp), d score = weight (d weight - delta), where delta is the sum of
// grad_output * output over a row: what the softmax's denominator takes away.
void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const AttentionSizes sizes = attention_sizes(node, 1);
  std::vector<double> in[6];
  for (int i = 0; i < 6; ++i) in[i] = read_elements<double>(*operands[i]);
  const auto& [grad_output, q, k, v, output, logsumexp] = in;
  std::vector<double> grad_q(q.size()), grad_k(k.size()), grad_v(v.size());
  const int64_t width = sizes.width;
  for (int64_t row = 0; row < std::ssize(logsumexp); ++row) {
    const int64_t head = row / sizes.queries % sizes.heads;
    const int64_t batch = row / sizes.queries / sizes.heads;
    const int64_t first_key = (batch * sizes.kv_heads + sizes.kv_head_of(head)) * sizes.keys;
    const double* const g = &grad_output[row * width];
    const double delta = dot(g, &output[row * width], width);
    for (int64_t j = 0; j < sizes.num_seen(row % sizes.queries); ++j) {
      const int64_t key = (first_key + j) * width;
      const double score = sizes.scale * dot(&q[row * width], &k[key], width);
      const double weight = std::exp(score - logsumexp[row]);
      const double grad_score = sizes.scale * weight * (dot(g, &v[key], width) - delta);
      add(weight, g, width, &grad_v[key]);
      add(grad_score, &q[row * width], width, &grad_k[key]);
      add(grad_score, &k[key], width, &grad_q[row * width]);
    }
  }
  write_elements(grad_q, results[0]);
  write_elements(grad_k, results[1]);
  write_elements(grad_v, results[2]);
}

Cost cost(const ir::Node& node) {
  const AttentionSizes sizes = attention_sizes(node, 1);
  double bytes = 0;
  for (ir::Value operand : node.operands())
    bytes += static_cast<double>(operand.type().num_bytes());
  for (const ir::TensorType& type : node.types()) bytes += static_cast<double>(type.num_bytes());
  return {.flops = 10 * sizes.num_pairs() * static_cast<double>(sizes.width), .bytes = bytes};
}

Sample sample(ir::DType dtype, ir::Shape q, ir::Shape kv, bool causal) {
  const ir::TensorType query{dtype, q}, key{dtype, std::move(kv)};
  return {.operands = {{query}, {query}, {key}, {key}, {query}, {logsumexp_type(query), 1, 2}},
          .attributes = {{"causal", causal}, {"scale", 0.7}},
          .check_gradient = false};
}

std::vector<Sample> samples() {
  using ir::DType;
  return {sample(DType::kF32, {1, 2, 3, 4}, {1, 2, 3, 4}, true),
          sample(DType::kF32, {2, 4, 3, 2}, {2, 2, 5, 2}, true),
          sample(DType::kF64, {1, 3, 3, 2}, {1, 1, 2, 2}, false),
          sample(DType::kBF16, {1, 2, 3, 4}, {1, 2, 3, 4}, true)};
}

std::vector<BadSample> bad_samples() {
  const auto f32 = [](ir::Shape shape) {
    return ir::TensorType{ir::DType::kF32, std::move(shape)};
  };
  const ir::Attributes attributes = {{"causal", false}, {"scale", 1.0}};
  const ir::TensorType q = f32({1, 2, 3, 4}), sums = f32({1, 2, 3});
  return {{{q, q, q, f32({1, 2, 4, 4}), q, sums}, attributes, "use [batch,heads,queries,width]"},
          {{f32({1, 2, 3, 5}), q, q, q, q, sums},
           attributes,
           "operand 'grad_output' is f32[1,2,3,5]: use f32[1,2,3,4]"},
          {{q, q, q, q, f32({1, 2, 4, 4}), sums}, attributes, "operand 'output' is f32[1,2,4,4]"},
          {{q, q, q, q, q, f32({1, 2, 3, 1})}, attributes, "operand 'logsumexp' is f32[1,2,3,1]"}};
}

}  // namespace

// d q = d score k, d k = d score^T q, d v = weight^T d output
const OpDef scaled_dot_product_attention_backward_op = {
    .name = "scaled_dot_product_attention_backward",
    .doc =
        "The gradients of q, k and v from that of the output of scaled_dot_product_attention, its "
        "operands and its results.",
    .operands = {"grad_output", "q", "k", "v", "output", "logsumexp"},
    .attributes = {{"causal", AttributeKind::kBool}, {"scale", AttributeKind::kFloat}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .cost = cost,
    .placements = divide_attention,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
