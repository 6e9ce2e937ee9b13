#pragma once

#include "ops/division.h"

// What attention and its backward share.
namespace monograph::ops {

struct AttentionSizes {
  int64_t batch, heads, kv_heads, queries, keys, width;
  bool causal;
  double scale;

  int64_t kv_head_of(int64_t head) const { return head / (heads / kv_heads); }
  // How many keys, from the first on, a query sees.
  int64_t num_seen(int64_t query) const { return causal ? query + keys - queries + 1 : keys; }
  double num_pairs() const;  // of a query and a key that it sees, over all heads
};

// Sizes of a node with operands q, k and v from number `first` on.
AttentionSizes attention_sizes(const ir::Node& node, int first);
// UserError unless the operands from `first` on are q, k and v that fit.
void check_attention(const InferContext& context, int first);
// f32[batch, heads, queries], or f64 for operands in f64.
ir::TensorType logsumexp_type(const ir::TensorType& q);
// By rows of the batch or by heads, of which all operands have parts.
std::optional<Division> divide_attention(const DivisionContext& context);
// What to hold the other operands to.
void check_type(const InferContext& context, int operand, const ir::TensorType& expected);

}  // namespace monograph::ops
