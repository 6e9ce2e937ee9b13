#include "passes/fuse/isolate.h"

#include <fmt/format.h>

#include "passes/fuse/clusters.h"
#include "passes/fuse/fused_graph.h"

namespace monograph::passes {
namespace {

constexpr std::string_view kCause = "the pass fuse did not run";

// Edges that fusion would have looked at.
void remark_edges(const ir::Graph& graph, Clusters& clusters, PassContext& context) {
  for (const auto& node : graph.nodes()) {
    if (!clusters.group_of(node.get())->is_kernel) continue;
    for (const ir::Value operand : node->operands()) {
      if (!clusters.group_of(operand.node)->is_kernel) continue;
      context.remark(*node,
                     fmt::format("not fused with %{} = {}: {}", operand.node->id(),
                                 operand.node->op(), kCause),
                     kCause);
    }
  }
}

}  // namespace

bool isolate(ir::Graph& graph, PassContext& context) {
  graph.renumber();
  Clusters clusters(graph);
  if (!clusters.has_kernels()) return false;
  remark_edges(graph, clusters, context);
  put_into_kernels(graph, clusters);
  return true;
}

}  // namespace monograph::passes
