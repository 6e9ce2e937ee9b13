#include "passes/fuse/fuse.h"

#include <fmt/format.h>

#include "passes/fuse/clusters.h"
#include "passes/fuse/fused_graph.h"
#include "passes/fuse/recompute.h"

namespace monograph::passes {
namespace {

using ir::Value;
using Group = Clusters::Group;

// The reason of each edge between two kernels that stayed.
void remark_edges(const ir::Graph& graph, Clusters& clusters, PassContext& context) {
  for (const auto& node : graph.nodes()) {
    Group* group = clusters.group_of(node.get());
    for (Value operand : node->operands()) {
      Group* producer = clusters.group_of(operand.node);
      if (producer == group || !producer->is_kernel || !group->is_kernel) continue;
      const std::string_view cause = clusters.why_not(*producer, *group);
      context.remark(
          *node,
          fmt::format("not fused with %{} = {}: {}", operand.node->id(), operand.node->op(), cause),
          cause);
    }
  }
}

}  // namespace

bool fuse(ir::Graph& graph, PassContext& context) {
  graph.renumber();
  Clusters clusters(graph);
  if (!clusters.has_kernels()) return false;
  clusters.merge_along_edges();
  clusters.merge_siblings();
  recompute_across_kernels(graph, clusters, context);
  remark_edges(graph, clusters, context);
  put_into_kernels(graph, clusters);
  return true;
}

}  // namespace monograph::passes
