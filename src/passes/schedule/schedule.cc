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

// Made where it is first read, and not when its operands are there: a gathered unit, and what
// depends on gathered units alone.
std::unordered_set<const Node*> made_on_demand(const ir::Graph& graph) {
  std::unordered_set<const Node*> result;
  for (const auto& node : graph.nodes()) {
    const auto& operands = node->operands();
    const bool is_gather = node->is("all_gather") && node->attributes().contains("unit");
    const bool follows = !operands.empty() &&
                         std::all_of(operands.begin(), operands.end(),
                                     [&](Value operand) { return result.contains(operand.node); });
    if (is_gather || follows) result.insert(node.get());
  }
  return result;
}

// The nodes in the order in which they run.
class Order {
 public:
  explicit Order(const ir::Graph& graph) : live_(graph) {}

  void run(Node* node) {
    if (!done_.insert(node).second) return;
    for (Value operand : node->operands()) run(operand.node);
    live_.run(*node);
    nodes_.push_back(node);
  }
  const LiveBytes& live() const { return live_; }
  std::vector<Node*> take() { return std::move(nodes_); }

 private:
  LiveBytes live_;
  std::unordered_set<const Node*> done_;
  std::vector<Node*> nodes_;
};

std::vector<Node*> greedy_order(const ir::Graph& graph) {
  const std::unordered_set<const Node*> on_demand = made_on_demand(graph);
  Order order(graph);
  std::unordered_map<const Node*, int> waiting;
  std::unordered_map<const Node*, std::vector<Node*>> followers;
  std::vector<Node*> ready, last;
  for (const auto& node : graph.nodes()) {
    if (is_fixed(*node)) {
      last.push_back(node.get());
      continue;
    }
    if (on_demand.contains(node.get())) continue;
    std::unordered_set<const Node*> before;
    for (Value operand : node->operands()) {
      if (!on_demand.contains(operand.node)) before.insert(operand.node);
    }
    waiting[node.get()] = static_cast<int>(before.size());
    for (const Node* operand : before) followers[operand].push_back(node.get());
    if (before.empty()) ready.push_back(node.get());
  }
  while (!ready.empty()) {
    const auto best = std::min_element(ready.begin(), ready.end(), [&](Node* a, Node* b) {
      const int64_t x = order.live().change(*a), y = order.live().change(*b);
      return x != y ? x < y : a->id() < b->id();
    });
    Node* node = *best;
    ready.erase(best);
    order.run(node);
    for (Node* follower : followers[node]) {
      if (--waiting[follower] == 0) ready.push_back(follower);
    }
  }
  std::vector<Node*> nodes = order.take();
  nodes.insert(nodes.end(), last.begin(), last.end());
  return nodes;
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
