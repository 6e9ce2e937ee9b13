#include "passes/simplify/eliminate_dead_nodes.h"

#include "analysis/liveness.h"

namespace monograph::passes {

bool eliminate_dead_nodes(ir::Graph& graph, PassContext&) {
  const auto live = analysis::live_nodes(graph);
  const int before = graph.num_nodes();
  graph.erase_if([&](const ir::Node& node) { return !live.contains(&node); });
  graph.renumber();
  return graph.num_nodes() != before;
}

}  // namespace monograph::passes
