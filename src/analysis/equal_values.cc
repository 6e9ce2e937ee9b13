#include "analysis/equal_values.h"

#include "ops/registry.h"

namespace monograph::analysis {

void EqualValues::visit(const ir::Node& node) {
  equal_[&node] = axes_of(node);
}

bool EqualValues::are_equal(ir::Value value, const std::string& axis) const {
  const auto found = equal_.find(value.node);
  return found != equal_.end() && found->second.contains(axis);
}

Axes EqualValues::axes_of(const ir::Node& node) const {
  if (node.is_placeholder()) return of_placeholder_ ? of_placeholder_(node) : Axes();
  if (node.is("recv") || node.is("recv_start")) return {};  // whatever another rank sends
  Axes equal = axes_;
  for (ir::Value operand : node.operands()) {
    std::erase_if(equal, [&](const std::string& axis) { return !are_equal(operand, axis); });
  }
  if (!ops::has_trait(node, ops::kCollective)) return equal;
  const auto& axis = node.attribute<std::string>("axis");
  if (node.is("all_reduce") || node.is("all_gather") || node.is("broadcast")) {
    equal.insert(axis);
  } else {
    equal.erase(axis);
  }
  return equal;
}

Axes axes_of_collectives(const ir::Graph& graph) {
  Axes axes;
  for (const auto& node : graph.nodes()) {
    if (ops::has_trait(*node, ops::kCollective)) axes.insert(node->attribute<std::string>("axis"));
  }
  return axes;
}

}  // namespace monograph::analysis
