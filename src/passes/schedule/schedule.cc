#include "passes/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"
#include "passes/memory/placement.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

// Counts live bytes while nodes run one after the other. A view lives in its operand, as does a
// product in the matrix that it is added to; placeholders and what leaves the step are always
// there.
class LiveBytes {
 public:
  explicit LiveBytes(const ir::Graph& graph) {
    for (Value root : graph.roots()) kept_.insert(root_of(root));
    for (const auto& node : graph.nodes()) {
      for (Value operand : node->operands()) ++uses_[root_of(operand)];
    }
  }

  // The change of live bytes when the node has run; its operands' last uses free them.
  int64_t change(Node& node) const {
    int64_t bytes = allocated(node);
    ir::ValueMap<int> taken;
    for (Value operand : node.operands()) ++taken[root_of(operand)];
    for (const auto& [value, count] : taken) {
      if (uses_.at(value) == count && is_freed(value)) bytes -= value.type().num_bytes();
    }
    return bytes;
  }

  void run(Node& node) {
    peak_ = std::max(peak_, live_ + allocated(node));
    live_ += change(node);
    for (Value operand : node.operands()) --uses_.at(root_of(operand));
  }

  int64_t peak() const { return peak_; }

 private:
  static bool lives_in_operand(const Node& node) {
    return ops::has_trait(node, ops::kViewLike) || is_accumulation(node);
  }

  static Value root_of(Value value) {
    while (lives_in_operand(*value.node)) value = value.node->operand(0);
    return value;
  }

  bool is_freed(Value value) const {
    return !value.node->is_placeholder() && !kept_.contains(value);
  }

  static int64_t allocated(const Node& node) {
    if (node.is_placeholder() || lives_in_operand(node)) return 0;
    int64_t bytes = 0;
    for (const ir::TensorType& type : node.types()) bytes += type.num_bytes();
    return bytes;
  }

  ir::ValueMap<int> uses_;
  ir::ValueSet kept_;
  int64_t live_ = 0, peak_ = 0;
};

int64_t peak_of(const ir::Graph& graph, const std::vector<Node*>& order) {
  LiveBytes live(graph);
  for (Node* node : order) live.run(*node);
  return live.peak();
}

bool is_fixed(const Node& node) {
  return node.phase() == ir::Phase::kOptimizer;
}

std::vector<Node*> greedy_order(const ir::Graph& graph) {
  LiveBytes live(graph);
  std::unordered_map<const Node*, int> waiting;
  std::unordered_map<const Node*, std::vector<Node*>> followers;
  std::vector<Node*> ready, order, last;
  for (const auto& node : graph.nodes()) {
    if (is_fixed(*node)) {
      last.push_back(node.get());
      continue;
    }
    std::unordered_set<const Node*> before;
    for (Value operand : node->operands()) before.insert(operand.node);
    waiting[node.get()] = static_cast<int>(before.size());
    for (const Node* operand : before) followers[operand].push_back(node.get());
    if (before.empty()) ready.push_back(node.get());
  }
  while (!ready.empty()) {
    const auto best = std::min_element(ready.begin(), ready.end(), [&](Node* a, Node* b) {
      const int64_t x = live.change(*a), y = live.change(*b);
      return x != y ? x < y : a->id() < b->id();
    });
    Node* node = *best;
    ready.erase(best);
    live.run(*node);
    order.push_back(node);
    for (Node* follower : followers[node]) {
      if (--waiting[follower] == 0) ready.push_back(follower);
    }
  }
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

}  // namespace

bool schedule(ir::Graph& graph, PassContext& context) {
  graph.renumber();
  std::vector<Node*> traced;
  for (const auto& node : graph.nodes()) traced.push_back(node.get());
  const std::vector<Node*> order = greedy_order(graph);
  // Something before the optimizer may need what it made: then the traced order is the only one.
  if (order.size() != traced.size() || order == traced) return false;
  const int64_t before = peak_of(graph, traced), after = peak_of(graph, order);
  if (after >= before) return false;
  context.remark(*traced.back(),
                 fmt::format("another order: at most {} live bytes instead of {}", after, before));
  std::vector<std::unique_ptr<Node>> nodes = graph.take_nodes();
  for (Node* node : order) graph.append(std::move(nodes[node->id()]));
  graph.renumber();
  return true;
}

}  // namespace monograph::passes
