#include "passes/fuse/fold_bias.h"

#include <algorithm>

#include "analysis/iteration_space.h"
#include "ir/rewriter.h"
#include "ops/builder.h"

namespace monograph::passes {

bool fold_bias(ir::Graph& graph, PassContext& context) {
  const auto users = ir::users_of(graph);
  std::unordered_set<const ir::Node*> foldable;
  const auto is_bias = [](ir::Value bias, ir::Value product) {
    return product.node->is("matmul") && bias.shape() == ir::Shape{product.shape()[-1]};
  };
  for (const auto& node : graph.nodes()) {
    if (!node->is("add")) continue;
    const bool matches =
        is_bias(node->operand(1), node->operand(0)) || is_bias(node->operand(0), node->operand(1));
    const auto found = users.find(node->result());
    if (!matches || found == users.end()) continue;
    const bool stays_outside =
        std::all_of(found->second.begin(), found->second.end(), [](const ir::Node* user) {
          return analysis::fuse_role(*user) == analysis::FuseRole::kNone;
        });
    if (stays_outside) foldable.insert(node.get());
  }
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!foldable.contains(&node)) return ir::keep();
    const bool product_first = is_bias(node.operand(1), node.operand(0));
    const ir::Value product = node.operand(product_first ? 0 : 1);
    const ir::Value bias = node.operand(product_first ? 1 : 0);
    context.remark(node, "folded into its matrix product: no kernel reads the sum");
    return build.emit("addmm", {bias, product.node->operand(0), product.node->operand(1)});
  });
}

}  // namespace monograph::passes
