#pragma once

#include <span>
#include <string_view>

#include "ops/op_def.h"

namespace monograph::ops {

// One object an op, defined in its own file.
namespace defs {
#define MONOGRAPH_OP(name) extern const OpDef name##_op;
#include "ops/op_list.inc"
#undef MONOGRAPH_OP
}  // namespace defs

// All ops, sorted by name.
std::span<const OpDef* const> all_ops();

// Null when there is no such op. Placeholders (`input`, `state`) and `fused` are no ops.
const OpDef* find_op(std::string_view name);

// UserError naming the nearest op.
const OpDef& op_named(std::string_view name);

// The op of a node; null for placeholders and fused nodes.
inline const OpDef* op_of(const ir::Node& node) {
  return find_op(node.op());
}
inline bool has_trait(const ir::Node& node, Trait trait) {
  const OpDef* op = op_of(node);
  return op != nullptr && op->has(trait);
}

// Result types of `op` on these operands; checks arity and attribute names and kinds first.
std::vector<ir::TensorType> infer_types(const OpDef& op, std::span<const ir::TensorType> operands,
                                        const ir::Attributes& attributes);

}  // namespace monograph::ops
