#include <cmath>

#include "ops/builder.h"
#include "ops/elements.h"
#include "ops/linear/attention.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  check_attention(context, 0);
  return {context.operands[0], logsumexp_type(context.operands[0])};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const AttentionSizes sizes = attention_sizes(node, 0);
  const std::vector<double> q = read_elements<double>(*operands[0]);
  const std::vector<double> k = read_elements<double>(*operands[1]);
  const std::vector<double> v = read_elements<double>(*operands[2]);
  std::vector<double> output(q.size()), logsumexp(q.size() / sizes.width), scores(sizes.keys);
  for (int64_t row = 0; row < std::ssize(logsumexp); ++row) {
    const int64_t head = row / sizes.queries % sizes.heads;
    const int64_t batch = row / sizes.queries / sizes.heads;
    const int64_t first_key = (batch * sizes.kv_heads + sizes.kv_head_of(head)) * sizes.keys;
    const int64_t num_seen = sizes.num_seen(row % sizes.queries);
    double highest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < num_seen; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < sizes.width; ++d) {
        dot += q[row * sizes.width + d] * k[(first_key + j) * sizes.width + d];
      }
      scores[j] = dot * sizes.scale;
      highest = std::fmax(highest, scores[j]);
    }
    for (int64_t j = 0; j < num_seen; ++j) sum += scores[j] = std::exp(scores[j] - highest);
    logsumexp[row] = highest + std::log(sum);
    for (int64_t j = 0; j < num_seen; ++j) {
      for (int64_t d = 0; d < sizes.width; ++d) {
        output[row * sizes.width + d] += scores[j] / sum * v[(first_key + j) * sizes.width + d];
      }
    }
  }
  write_elements(output, results[0]);
  write_elements(logsumexp, results[1]);
}

// d logsumexp_i / d score_ij is the weight of key j, so its gradients are those of attention with
// other values: for q, attention to the keys themselves; for k, what values get from q.
void add_logsumexp_gradient(Builder& build, ir::Node& node, ir::Value cotangent,
                            std::vector<ir::Value>& gradients) {
  const ir::Value q = node.operand(0), k = node.operand(1);
  const ir::Shape& rows = cotangent.shape();
  const ir::Value factor =
      build.mul(build.convert(build.reshape(cotangent, {rows[0], rows[1], rows[2], 1}), q.dtype()),
                node.attribute<double>("scale"));
  ir::Node* mean_key =
      build.emit_node("scaled_dot_product_attention", {q, k, k}, node.attributes());
  ir::Node* backward = build.emit_node(
      "scaled_dot_product_attention_backward",
      {build.mul(q, factor), q, k, k, node.result(0), node.result(1)}, node.attributes());
  const ir::Value d_q = build.mul(mean_key->result(0), factor), d_k = backward->result(2);
  gradients[0] = gradients[0] ? build.add(gradients[0], d_q) : d_q;
  gradients[1] = gradients[1] ? build.add(gradients[1], d_k) : d_k;
  if (!gradients[2]) gradients[2] = build.full(node.operand(2).type(), 0);
}

std::vector<ir::Value> gradient(Builder& build, ir::Node& node,
                                std::span<const ir::Value> cotangents) {
  std::vector<ir::Value> gradients(3);
  if (cotangents[0]) {
    ir::Node* backward = build.emit_node("scaled_dot_product_attention_backward",
                                         {cotangents[0], node.operand(0), node.operand(1),
                                          node.operand(2), node.result(0), node.result(1)},
                                         node.attributes());
    gradients = {backward->result(0), backward->result(1), backward->result(2)};
  }
  if (cotangents[1]) add_logsumexp_gradient(build, node, cotangents[1], gradients);
  return gradients;
}

Cost cost(const ir::Node& node) {
  const AttentionSizes sizes = attention_sizes(node, 0);
  double bytes = 0;
  for (ir::Value operand : node.operands())
    bytes += static_cast<double>(operand.type().num_bytes());
  for (const ir::TensorType& type : node.types()) bytes += static_cast<double>(type.num_bytes());
  return {.flops = 4 * sizes.num_pairs() * static_cast<double>(sizes.width), .bytes = bytes};
}

Sample sample(ir::DType dtype, ir::Shape q, ir::Shape kv, bool causal, bool gradient = true) {
  return {.operands = {{{dtype, std::move(q)}, -2, 2}, {{dtype, kv}, -2, 2}, {{dtype, kv}}},
          .attributes = {{"causal", causal}, {"scale", 0.7}},
          .check_gradient = gradient};
}

std::vector<Sample> samples() {
  using ir::DType;
  return {sample(DType::kF32, {1, 2, 3, 4}, {1, 2, 3, 4}, true),
          sample(DType::kF32, {2, 1, 3, 2}, {2, 1, 5, 2}, true),
          sample(DType::kF32, {1, 4, 2, 3}, {1, 2, 4, 3}, false),
          sample(DType::kF32, {1, 3, 3, 2}, {1, 1, 2, 2}, false),
          sample(DType::kF64, {1, 1, 1, 1}, {1, 1, 1, 1}, true),
          sample(DType::kBF16, {1, 2, 3, 4}, {1, 2, 3, 4}, true, false)};
}

std::vector<BadSample> bad_samples() {
  const auto f32 = [](ir::Shape shape) {
    return ir::TensorType{ir::DType::kF32, std::move(shape)};
  };
  const ir::Attributes attributes = {{"causal", true}, {"scale", 1.0}};
  const ir::TensorType q = f32({1, 2, 3, 4});
  return {{{q, q, f32({1, 2, 4, 4})}, attributes, "use [batch,heads,queries,width] with k and v"},
          {{f32({2, 3, 4}), f32({2, 3, 4}), f32({2, 3, 4})}, attributes, "q is f32[2,3,4], k"},
          {{q, f32({1, 2, 3, 5}), f32({1, 2, 3, 5})}, attributes, "k f32[1,2,3,5]"},
          {{f32({1, 3, 3, 4}), q, q}, attributes, "kv_heads a divisor of heads"},
          {{q, f32({1, 2, 2, 4}), f32({1, 2, 2, 4})},
           attributes,
           "causal with 3 queries and 2 keys: the first queries would see no key"},
          {{q, q, {ir::DType::kBF16, {1, 2, 3, 4}}}, attributes, "one floating dtype"}};
}

}  // namespace

// output = softmax(scale q k^T) v; logsumexp = log(sum(exp(scale q k^T)))
const OpDef scaled_dot_product_attention_op = {
    .name = "scaled_dot_product_attention",
    .doc =
        "softmax(scale q k^T) v by heads, and the logarithm of the softmax's denominator (f32): "
        "q[B,H,T,D], k and v[B,G,S,D], G dividing H; causal: the last query sees all keys, each "
        "one before it a key less.",
    .operands = {"q", "k", "v"},
    .attributes = {{"causal", AttributeKind::kBool}, {"scale", AttributeKind::kFloat}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .cost = cost,
    .placements = divide_attention,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
