#include "ops/index/ids.h"

#include "ops/elements.h"

namespace monograph::ops {

void check_ids_dtype(const InferContext& context, int operand) {
  const ir::TensorType& ids = context.operands[operand];
  if (ids.dtype == ir::DType::kI32 || ids.dtype == ir::DType::kI64) return;
  context.fail("operand '{}' is {}: it takes i32 or i64, e.g. convert({}, i32)",
               context.op.operands[operand], ids.str(), context.op.operands[operand]);
}

std::vector<int64_t> read_ids(const ir::Node& node, const ir::Literal& ids, int64_t num_ids) {
  std::vector<int64_t> values = read_elements<int64_t>(ids);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < num_ids) continue;
    throw_user_error("[{}] id {} at position {} of {} is out of range: use 0..{}", node.op(),
                     values[i], i, ids.type().str(), num_ids - 1);
  }
  return values;
}

}  // namespace monograph::ops
