#include "passes/fuse/select_gathers.h"

#include "analysis/iteration_space.h"
#include "ir/rewriter.h"
#include "ops/builder.h"

namespace monograph::passes {

bool select_gathers(ir::Graph& graph, PassContext& context) {
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!node.is("gather")) return ir::keep();
    const ir::Value x = node.operand(0);
    const ir::Value index = node.operand(1);
    const bool is_computed = analysis::fuse_role(*x.node) == analysis::FuseRole::kElement;
    if (!is_computed || !ir::is_floating(x.dtype())) return ir::keep();
    context.remark(node, "a sum over a selection: its operand is computed in the same kernel");
    const int64_t last = x.shape().rank() - 1;
    const ir::Value columns = build.emit(
        "iota", {}, {{"shape", x.shape().dims()}, {"axis", last}, {"dtype", index.dtype()}});
    const ir::Value zero = build.scalar(x.dtype(), 0);
    const ir::Value chosen = build.where(build.emit("eq", {columns, index}), x, zero);
    return build.sum(chosen, {last}, true);
  });
}

}  // namespace monograph::passes
