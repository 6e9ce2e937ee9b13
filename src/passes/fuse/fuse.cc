#include "passes/fuse/fuse.h"

#include <fmt/format.h>

#include "ops/registry.h"
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

// The kernels that a chain of views leads to: readers of a value, or writers of an operand.
void find_kernels(ir::Node& from, bool is_forward,
                  const ir::ValueMap<std::vector<ir::Node*>>& users, Clusters& clusters,
                  std::vector<ir::Node*>& found) {
  std::vector<ir::Node*> next;
  for (int i = 0; is_forward && i < from.num_results(); ++i) {
    const auto readers = users.find(from.result(i));
    if (readers != users.end())
      next.insert(next.end(), readers->second.begin(), readers->second.end());
  }
  for (int i = 0; !is_forward && i < from.num_operands(); ++i) next.push_back(from.operand(i).node);
  for (ir::Node* node : next) {
    const bool is_view =
        ops::has_trait(*node, ops::kViewLike) || ops::has_trait(*node, ops::kGather);
    if (is_view) find_kernels(*node, is_forward, users, clusters, found);
    if (clusters.group_of(node)->is_kernel) found.push_back(node);
  }
}

// Whatever is on both sides of a unit's gather or scatter stays in kernels of its own.
void remark_unit_boundaries(const ir::Graph& graph, Clusters& clusters, PassContext& context) {
  const auto users = ir::users_of(graph);
  for (const auto& node : graph.nodes()) {
    const std::string unit = node->attribute_or("unit", std::string());
    const bool is_gather = node->is("all_gather");
    if (unit.empty() || !(is_gather || node->is("reduce_scatter"))) continue;
    std::vector<ir::Node*> kernels;
    find_kernels(*node, is_gather, users, clusters, kernels);
    const std::string_view cause =
        is_gather ? "the unshard of a unit stands between" : "the reshard of a unit stands between";
    for (const ir::Node* kernel : kernels) {
      context.remark(*kernel,
                     fmt::format("not fused across %{} = {} of unit '{}': {}", node->id(),
                                 node->op(), unit, cause),
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
  remark_unit_boundaries(graph, clusters, context);
  put_into_kernels(graph, clusters);
  return true;
}

}  // namespace monograph::passes
