#include "passes/fuse/move_converts.h"

#include <algorithm>

#include "ir/rewriter.h"
#include "ops/builder.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;
using Users = ir::ValueMap<std::vector<Node*>>;

bool is_view(const Node& node) {
  return ops::has_trait(node, ops::kViewLike) && !node.is("expand");
}

bool is_half(ir::DType dtype) {
  return dtype == ir::DType::kBF16 || dtype == ir::DType::kF16;
}

bool narrows(const Node& node) {
  return node.is("convert") && is_half(node.types()[0].dtype) &&
         node.operand(0).dtype() == ir::DType::kF32;
}

bool widens(const Node& node) {
  return node.is("convert") && is_half(node.operand(0).dtype()) &&
         node.types()[0].dtype == ir::DType::kF32;
}

class Mover {
 public:
  explicit Mover(ir::Graph& graph) : users_(ir::users_of(graph)), build_(graph) {
    for (const Value root : graph.roots()) seen_outside_.insert(root);
    for (const auto& node : graph.nodes()) {
      if (!widens(*node)) continue;
      const Node& source = *node->operand(0).node;
      const bool is_gradient = ops::has_trait(source, ops::kLibrary) &&
                               source.phase() == ir::Phase::kBackward && source.num_results() == 1;
      std::unordered_set<const Node*> views;
      if (!is_gradient && reads_are_in_kernels(node->result(), views)) views_.merge(views);
    }
  }

  bool is_behind_widening(const Node& node) const { return views_.contains(&node); }

  // The same view of what is widened, then widened.
  std::vector<Value> widened_view(const Node& node) {
    const Node& convert = *node.operand(0).node;
    Node* const view = build_.emit_node(node.op(), {convert.operand(0)}, node.attributes());
    std::vector<Value> results;
    for (int i = 0; i < view->num_results(); ++i) {
      results.push_back(build_.convert(view->result(i), convert.types()[0].dtype));
    }
    return results;
  }

  // A concatenation that one node reads, perhaps seen in another shape or order.
  bool is_movable(Value value) const {
    const auto found = users_.find(value);
    const bool is_read_once =
        found != users_.end() && found->second.size() == 1 && !seen_outside_.contains(value);
    if (!is_read_once) return false;
    const Node& node = *value.node;
    return node.is("cat") ||
           ((node.is("reshape") || node.is("permute")) && is_movable(node.operand(0)));
  }

  Value narrowed(Value value, ir::DType dtype) {
    if (!is_movable(value)) return build_.convert(value, dtype);
    std::vector<Value> operands;
    for (const Value operand : value.node->operands()) operands.push_back(narrowed(operand, dtype));
    return build_.emit(value.node->op(), operands, value.node->attributes());
  }

 private:
  // All reads of the value through views, which are collected, are done by kernels.
  bool reads_are_in_kernels(Value value, std::unordered_set<const Node*>& views) const {
    const auto found = users_.find(value);
    if (found == users_.end()) return false;
    return std::all_of(found->second.begin(), found->second.end(), [&](Node* user) {
      if (ops::has_trait(*user, ops::kPointwise) || ops::has_trait(*user, ops::kReduction))
        return true;
      if (!is_view(*user) || user->operand(0) != value) return false;  // `after` reads others, too
      views.insert(user);
      for (int i = 0; i < user->num_results(); ++i) {
        if (!reads_are_in_kernels(user->result(i), views)) return false;
      }
      return true;
    });
  }

  const Users users_;
  std::unordered_set<const Node*> views_;  // behind a widening
  ir::ValueSet seen_outside_;              // outputs and updates
  ops::Builder build_;
};

}  // namespace

bool move_converts(ir::Graph& graph, PassContext& context) {
  Mover mover(graph);
  return ir::rewrite(graph, [&](Node& node) -> ir::Rewrite {
    if (mover.is_behind_widening(node)) {
      context.remark(node, "its operand is widened behind it, in the kernels that read it");
      return mover.widened_view(node);
    }
    if (narrows(node) && mover.is_movable(node.operand(0))) {
      context.remark(node, "moved into the kernels before it");
      return mover.narrowed(node.operand(0), node.types()[0].dtype);
    }
    return ir::keep();
  });
}

}  // namespace monograph::passes
