#include "passes/simplify/drop_detach.h"

#include "ir/rewriter.h"

namespace monograph::passes {

bool drop_detach(ir::Graph& graph, PassContext&) {
  return ir::rewrite(graph, [](ir::Node& node) -> ir::Rewrite {
    if (!node.is("detach")) return ir::keep();
    return node.operand(0);
  });
}

}  // namespace monograph::passes
