#include "passes/collective/start_collectives.h"

#include <memory>

#include "ir/rewriter.h"
#include "ops/builder.h"
#include "ops/collective/transfer.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

// In a kernel of its own: fusion is done.
ir::Value zeros(ops::Builder& build, const ir::TensorType& type) {
  auto body = std::make_unique<ir::Graph>("kernel");
  body->add_output("y0", ops::Builder(*body).full(type, 0));
  return build.graph().add_fused({}, std::move(body))->result();
}

}  // namespace

bool start_collectives(ir::Graph& graph, PassContext& context) {
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!ops::has_trait(node, ops::kCollective) || ops::has_trait(node, ops::kStart)) {
      return ir::keep();
    }
    const ir::Value x = node.operand(0);
    if (node.attribute<int64_t>("size") == 1) {
      context.remark(node, "nothing is sent: the axis has one rank");
      if (ops::is_transfer(node)) return zeros(build, node.types()[0]);
      return x;
    }
    ir::Attributes attributes = node.attributes();
    if (node.is("all_reduce")) {
      attributes["alignment"] = int64_t{1};
      attributes["begin"] = int64_t{0};
      attributes["count"] = x.type().num_elements();
    }
    const ir::Value started = build.emit(node.op() + "_start", {x}, attributes);
    const ir::Value done = build.emit(node.op() + "_done", {started});
    return done.shape() == node.types()[0].shape ? done
                                                 : build.reshape(done, node.types()[0].shape);
  });
}

}  // namespace monograph::passes
