#include "ops/linear/attention.h"

namespace monograph::ops {

double AttentionSizes::num_pairs() const {
  const auto t = static_cast<double>(queries), s = static_cast<double>(keys);
  const double in_head = causal ? t * s - t * (t - 1) / 2 : t * s;
  return static_cast<double>(batch * heads) * in_head;
}

AttentionSizes attention_sizes(const ir::Node& node, int first) {
  const ir::Shape &q = node.operand(first).shape(), &k = node.operand(first + 1).shape();
  return {q[0],
          q[1],
          k[1],
          q[2],
          k[2],
          q[3],
          node.attribute<bool>("causal"),
          node.attribute<double>("scale")};
}

void check_attention(const InferContext& context, int first) {
  const ir::TensorType &q = context.operands[first], &k = context.operands[first + 1],
                       &v = context.operands[first + 2];
  if (q.dtype != k.dtype || q.dtype != v.dtype || !ir::is_floating(q.dtype)) {
    context.fail("q is {}, k {}, v {}: all must have one floating dtype, convert them", q.str(),
                 k.str(), v.str());
  }
  const bool fits = q.shape.rank() == 4 && k.shape.rank() == 4 && k.shape == v.shape &&
                    q.shape[0] == k.shape[0] && q.shape[3] == k.shape[3] && q.num_elements() > 0 &&
                    k.num_elements() > 0 && q.shape[1] % k.shape[1] == 0;
  if (!fits) {
    context.fail(
        "q is {}, k {}, v {}: use [batch,heads,queries,width] with k and v "
        "[batch,kv_heads,keys,width], kv_heads a divisor of heads, no dim of 0",
        q.str(), k.str(), v.str());
  }
  if (context.attribute<bool>("causal") && q.shape[2] > k.shape[2]) {
    context.fail("causal with {} queries and {} keys: the first queries would see no key",
                 q.shape[2], k.shape[2]);
  }
}

ir::TensorType logsumexp_type(const ir::TensorType& q) {
  return {q.dtype == ir::DType::kF64 ? ir::DType::kF64 : ir::DType::kF32,
          {q.shape[0], q.shape[1], q.shape[2]}};
}

void check_type(const InferContext& context, int operand, const ir::TensorType& expected) {
  if (context.operands[operand] == expected) return;
  context.fail("operand '{}' is {}: use {}", context.op.operands[operand],
               context.operands[operand].str(), expected.str());
}

std::optional<Division> divide_attention(const DivisionContext& c) {
  const int first = c.first_shard();
  if (first < 0 || c.given[first].dim > 1 || c.given[first].blocks != 1) return {};
  const ir::Placement shard = c.given[first];
  for (int i = 0; i < c.node.num_operands(); ++i) {
    if (!shard.fits(c.shape(i), c.size)) return {};
  }
  return c.of_each(shard, shard);
}

}  // namespace monograph::ops
