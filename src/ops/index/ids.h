#pragma once

#include "ops/op_def.h"

// Integer operands that name rows: embedding, gather, sort_ids.
namespace monograph::ops {

// Refuses operand `operand` unless its dtype is i32 or i64.
void check_ids_dtype(const InferContext& context, int operand);

// All ids of a literal; UserError "[op] ..." when one is not in 0..num_ids-1.
std::vector<int64_t> read_ids(const ir::Node& node, const ir::Literal& ids, int64_t num_ids);

}  // namespace monograph::ops
