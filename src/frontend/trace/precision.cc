#include "frontend/trace/precision.h"

#include "ops/registry.h"

namespace monograph::trace {

bool Precision::is_narrow(std::string_view op) const {
  return ops::op_named(op).has(ops::kLibrary) || (op == "embedding" && residual != ir::DType::kF32);
}

ir::Value Narrowing::operator()(ops::Builder& build, ir::Value value, ir::DType dtype) {
  if (value.dtype() == dtype) return value;
  ir::Node& node = *value.node;
  if (node.is("convert") && node.operand(0).dtype() == dtype) return node.operand(0);
  if (!ops::has_trait(node, ops::kViewLike) || node.is("detach")) {
    ir::Value& cast = casts_[value];
    if (!cast) cast = build.convert(value, dtype);
    return cast;
  }
  if (const auto known = views_.find(&node); known != views_.end()) {
    return known->second->result(value.index);
  }
  const ir::Value source = (*this)(build, node.operand(0), dtype);
  ir::Node* view = build.emit_node(node.op(), {source}, node.attributes());
  views_[&node] = view;
  return view->result(value.index);
}

}  // namespace monograph::trace
