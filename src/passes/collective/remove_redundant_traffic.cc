#include "passes/collective/remove_redundant_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/equal_values.h"
#include "analysis/liveness.h"
#include "ir/mesh.h"
#include "ir/rewriter.h"
#include "ops/builder.h"
#include "ops/collective/transfer.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

// Zero in every element, whatever the inputs are.
bool is_zero(Value value) {
  const Node& node = *value.node;
  if (node.is("full")) return node.attribute<double>("value") == 0;
  const bool keeps_zeros = ops::has_trait(node, ops::kViewLike) ||
                           ops::has_trait(node, ops::kGather) || node.is("convert") ||
                           node.is("neg") || node.is("add") || node.is("sub") || node.is("sum");
  return keeps_zeros && std::all_of(node.operands().begin(), node.operands().end(), is_zero);
}

class Redundancy {
 public:
  Redundancy(ir::Graph& graph, PassContext& context)
      : build_(graph),
        context_(context),
        users_(ir::users_of(graph)),
        axes_of_stages_(ops::axes_of_transfers(graph)),
        equal_(analysis::axes_of_collectives(graph)) {
    for (Value root : graph.roots()) roots_.insert(root);
  }

  ir::Rewrite visit(Node& node) {
    ir::Rewrite rewrite = replace(node);
    equal_.visit(node);
    if (!rewrite.is_kept()) equal_.replace(node, rewrite.values()[0]);
    return rewrite;
  }

  // Gathers that nobody reads any more, and their views.
  const std::set<const Node*>& left() const { return left_; }

 private:
  ir::Rewrite replace(Node& node) {
    if (node.is("slice")) return part_of_gather(node);
    if (node.is("embedding")) return own_part_of_gather(node);
    if (!ops::has_trait(node, ops::kCollective) || is_between_stages(node)) return ir::keep();
    if (is_zero(node.operand(0))) {
      context_.leave_out(node, "what is sent is zero, whatever the inputs are");
      return build_.full(node.types()[0], 0);
    }
    return of_equal(node);
  }

  bool is_between_stages(const Node& node) const {
    return axes_of_stages_.contains(node.attribute<std::string>("axis"));
  }

  // The sum, the largest or the root's of what all ranks have.
  ir::Rewrite of_equal(Node& node) {
    const auto& axis = node.attribute<std::string>("axis");
    if (!(node.is("all_reduce") || node.is("broadcast")) ||
        !equal_.are_equal(node.operand(0), axis))
      return ir::keep();
    context_.leave_out(node, fmt::format("all ranks of '{}' have the same already", axis));
    if (node.attribute_or("op", std::string()) != "sum") return node.operand(0);
    return build_.mul(node.operand(0), static_cast<double>(node.attribute<int64_t>("size")));
  }

  // Null unless the value is a gather that nobody else reads. A unit's gather serves many.
  Node* gather_read_once(Value value) const {
    Node& node = *value.node;
    const bool is_gather = node.is("all_gather") && !node.attributes().contains("unit");
    return is_gather && is_read_once(value) && !is_between_stages(node) ? &node : nullptr;
  }

  bool is_read_once(Value value) const {
    const auto found = users_.find(value);
    return found != users_.end() && found->second.size() == 1 && !roots_.contains(value);
  }

  // Exactly what one rank gave: that rank sends it.
  ir::Rewrite part_of_gather(Node& node) {
    Node* gather = gather_read_once(node.operand(0));
    if (gather == nullptr || node.attribute<int64_t>("axis") != 0) return ir::keep();
    const int64_t rows = gather->operand(0).shape()[0];
    const auto start = node.attribute<int64_t>("start");
    if (start % rows != 0 || node.attribute<int64_t>("end") - start != rows) return ir::keep();
    const int64_t root = start / rows;
    context_.leave_out(*gather, fmt::format("only the part of rank {} is read", root),
                       gather->types()[0].num_bytes() - node.types()[0].num_bytes());
    left_.insert(gather);
    const Value any_place = build_.scalar(ir::DType::kI64, 0);  // gradients alone would read it
    return build_.emit("broadcast", {gather->operand(0), any_place},
                       {{"axis", gather->attributes().at("axis")},
                        {"size", gather->attributes().at("size")},
                        {"root", root}});
  }

  // Row `coordinate` of [ranks, elements]: what the rank itself gave.
  ir::Rewrite own_part_of_gather(Node& node) {
    Node* view = node.operand(0).node;
    if (!view->is("reshape") || !is_read_once(view->result())) return ir::keep();
    Node* gather = gather_read_once(view->operand(0));
    if (gather == nullptr) return ir::keep();
    const Node* place = node.operand(1).node;
    while (place->is("reshape")) place = place->operand(0).node;
    const bool is_own = place->is("state") && place->name() == coordinate_name(*gather) &&
                        view->types()[0].shape[0] == gather->attribute<int64_t>("size");
    if (!is_own) return ir::keep();
    context_.leave_out(*gather, "each rank reads its own part only");
    left_.insert({gather, view});
    return build_.reshape(gather->operand(0), node.types()[0].shape);
  }

  static std::string coordinate_name(const Node& gather) {
    return fmt::format("{}{}", ir::kCoordinatePrefix, gather.attribute<std::string>("axis"));
  }

  ops::Builder build_;
  PassContext& context_;
  const ir::ValueMap<std::vector<Node*>> users_;
  const std::set<std::string> axes_of_stages_;
  ir::ValueSet roots_;
  analysis::EqualValues equal_;
  std::set<const Node*> left_;
};

}  // namespace

bool remove_redundant_traffic(ir::Graph& graph, PassContext& context) {
  const bool has_any =
      std::any_of(graph.nodes().begin(), graph.nodes().end(),
                  [](const auto& node) { return ops::has_trait(*node, ops::kCollective); });
  if (!has_any) return false;
  const auto live = analysis::live_nodes(graph);
  for (const auto& node : graph.nodes()) {
    if (live.contains(node.get()) || !ops::has_trait(*node, ops::kCollective)) continue;
    context.leave_out(*node, "nobody reads what it gives");
  }
  Redundancy redundancy(graph, context);
  const bool changed = ir::rewrite(graph, [&](Node& node) { return redundancy.visit(node); });
  graph.erase_if([&](const Node& node) { return redundancy.left().contains(&node); });
  graph.renumber();
  return changed;
}

}  // namespace monograph::passes
