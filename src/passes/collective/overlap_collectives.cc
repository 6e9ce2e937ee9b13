#include "passes/collective/overlap_collectives.h"

#include <algorithm>

#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

constexpr int64_t kFewBytes = 256;

// Each start behind the last node that it needs.
std::vector<Node*> with_early_starts(const std::vector<Node*>& order) {
  std::unordered_map<const Node*, int> missing;  // of each start, operand nodes not yet there
  std::unordered_map<const Node*, std::vector<Node*>> waiting;
  for (Node* node : order) {
    if (!ops::has_trait(*node, ops::kStart)) continue;
    std::unordered_set<const Node*> needed;
    for (Value operand : node->operands()) needed.insert(operand.node);
    missing[node] = static_cast<int>(needed.size());
    for (const Node* each : needed) waiting[each].push_back(node);
  }
  std::vector<Node*> result;
  for (Node* node : order) {
    if (missing.contains(node)) continue;
    result.push_back(node);
    // A start has no start for an operand: there is a done between.
    for (Node* start : waiting[node]) {
      if (--missing.at(start) == 0) result.push_back(start);
    }
  }
  return result;
}

class LateDones {
 public:
  explicit LateDones(const ir::Graph& graph) : users_(ir::users_of(graph)) {}

  // Each done, what only shows it in another form, and small results of it, before their first
  // user.
  std::vector<Node*> run(const std::vector<Node*>& order) {
    for (Node* node : order) {
      if (is_late(*node)) late_.insert(node);
    }
    for (Node* node : order) {
      if (late_.contains(node)) missing_[node] = num_users(*node);
    }
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (late_.contains(*node) && missing_.at(*node) == 0) emit(*node);  // the step's own results
    }
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (!late_.contains(*node)) emit(*node);
    }
    std::reverse(result_.begin(), result_.end());
    return std::move(result_);
  }

 private:
  bool is_late(const Node& node) const {
    if (ops::has_trait(node, ops::kDone)) return true;
    const bool reads_late =
        std::any_of(node.operands().begin(), node.operands().end(),
                    [&](Value operand) { return late_.contains(operand.node); });
    if (!reads_late || ops::has_trait(node, ops::kStart)) return false;
    if (ops::has_trait(node, ops::kViewLike) || ops::has_trait(node, ops::kGather)) return true;
    int64_t bytes = 0;
    for (const ir::TensorType& type : node.types()) bytes += type.num_bytes();
    return bytes <= kFewBytes;
  }

  int num_users(Node& node) const {
    std::unordered_set<const Node*> users;
    for (int i = 0; i < node.num_results(); ++i) {
      const auto found = users_.find(node.result(i));
      if (found != users_.end()) users.insert(found->second.begin(), found->second.end());
    }
    return static_cast<int>(users.size());
  }

  // In reverse: a late node follows, that is stands before, the last of its users.
  void emit(Node* node) {
    if (!emitted_.insert(node).second) return;
    result_.push_back(node);
    std::vector<Node*> operands;
    for (Value operand : node->operands()) {
      const bool is_new =
          std::find(operands.begin(), operands.end(), operand.node) == operands.end();
      if (is_new && late_.contains(operand.node)) operands.push_back(operand.node);
    }
    for (auto operand = operands.rbegin(); operand != operands.rend(); ++operand) {
      if (--missing_.at(*operand) == 0) emit(*operand);
    }
  }

  const ir::ValueMap<std::vector<Node*>> users_;
  std::unordered_set<const Node*> late_, emitted_;
  std::unordered_map<const Node*, int> missing_;
  std::vector<Node*> result_;
};

}  // namespace

bool overlap_collectives(ir::Graph& graph, PassContext&) {
  graph.renumber();
  std::vector<Node*> before;
  for (const auto& node : graph.nodes()) before.push_back(node.get());
  const std::vector<Node*> after = LateDones(graph).run(with_early_starts(before));
  if (after == before) return false;
  std::vector<std::unique_ptr<Node>> nodes = graph.take_nodes();
  for (Node* node : after) graph.append(std::move(nodes[node->id()]));
  graph.renumber();
  return true;
}

}  // namespace monograph::passes
