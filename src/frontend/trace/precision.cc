#include "frontend/trace/precision.h"

#include "ops/registry.h"

namespace monograph::trace {

ir::Value narrowed(ops::Builder& build, ir::Value value, ir::DType dtype) {
  if (value.dtype() == dtype) return value;
  ir::Node& node = *value.node;
  if (node.is("convert") && node.operand(0).dtype() == dtype) return node.operand(0);
  if (!ops::has_trait(node, ops::kViewLike) || node.is("detach")) {
    return build.convert(value, dtype);
  }
  const ir::Value source = narrowed(build, node.operand(0), dtype);
  return build.emit_node(node.op(), {source}, node.attributes())->result(value.index);
}

}  // namespace monograph::trace
