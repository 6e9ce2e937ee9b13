#include "analysis/liveness.h"

namespace monograph::analysis {

std::unordered_set<const ir::Node*> live_nodes(const ir::Graph& graph,
                                               std::span<const ir::Value> others) {
  std::unordered_set<const ir::Node*> live;
  for (ir::Value other : others) live.insert(other.node);
  for (ir::Value root : graph.roots()) live.insert(root.node);
  const auto& nodes = graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if ((*node)->is_placeholder()) live.insert(node->get());
    if (!live.contains(node->get())) continue;
    for (ir::Value operand : (*node)->operands()) live.insert(operand.node);
  }
  return live;
}

}  // namespace monograph::analysis
