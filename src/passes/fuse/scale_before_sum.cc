#include "passes/fuse/scale_before_sum.h"

#include "analysis/iteration_space.h"
#include "ir/rewriter.h"
#include "ops/builder.h"

namespace monograph::passes {

bool scale_before_sum(ir::Graph& graph, PassContext&) {
  const auto users = ir::users_of(graph);
  std::unordered_set<const ir::Node*> movable;
  for (const auto& node : graph.nodes()) {
    if (!node->is("mul") || !node->operand(1).node->is("full")) continue;
    const ir::Value sum = node->operand(0);
    const bool is_scalar_factor =
        node->operand(1).type().num_elements() == 1 && node->types()[0].shape == sum.shape();
    const bool is_sum =
        sum.node->is("sum") && analysis::fuse_role(*sum.node) == analysis::FuseRole::kTerminal;
    if (is_scalar_factor && is_sum && users.at(sum).size() == 1) movable.insert(node.get());
  }
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!movable.contains(&node)) return ir::keep();
    const ir::Node& sum = *node.operand(0).node;
    const ir::Value factor =
        build.scalar(node.types()[0].dtype, node.operand(1).node->attribute<double>("value"));
    return build.emit("sum", {build.mul(sum.operand(0), factor)}, sum.attributes());
  });
}

}  // namespace monograph::passes
