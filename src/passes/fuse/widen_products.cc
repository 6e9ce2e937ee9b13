#include "passes/fuse/widen_products.h"

#include "analysis/iteration_space.h"
#include "ir/rewriter.h"
#include "ops/builder.h"

namespace monograph::passes {

bool widen_products(ir::Graph& graph, PassContext& context) {
  const auto users = ir::users_of(graph);
  std::unordered_set<const ir::Node*> foldable;
  for (const auto& node : graph.nodes()) {
    if (!node->is("convert") || node->types()[0].dtype != ir::DType::kF32) continue;
    const ir::Value product = node->operand(0);
    if (!product.node->is("matmul") || users.at(product).size() != 1) continue;
    if (analysis::is_used_outside_kernels(users, node->result())) foldable.insert(node.get());
  }
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!foldable.contains(&node)) return ir::keep();
    context.remark(node, "its matrix product writes f32 itself");
    const ir::Node& product = *node.operand(0).node;
    return build.emit("matmul", product.operands(), {{"dtype", ir::DType::kF32}});
  });
}

}  // namespace monograph::passes
