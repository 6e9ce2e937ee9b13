#include "passes/fuse/store_indexed.h"

#include "analysis/iteration_space.h"
#include "ir/rewriter.h"
#include "ops/builder.h"

namespace monograph::passes {

bool store_indexed(ir::Graph& graph, PassContext& context) {
  using analysis::FuseRole;
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (analysis::fuse_role(node) != FuseRole::kIndexed) return ir::keep();
    std::vector<ir::Value> operands = node.operands();
    for (ir::Value& operand : operands) {
      if (analysis::fuse_role(*operand.node) == FuseRole::kCreation) {
        operand = build.emit("clone", {operand});
      }
    }
    if (operands == node.operands()) return ir::keep();
    context.remark(node, "an operand is written to memory: it is read through an index");
    return build.emit(node.op(), std::move(operands), node.attributes());
  });
}

}  // namespace monograph::passes
