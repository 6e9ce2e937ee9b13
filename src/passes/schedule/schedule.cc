#include "passes/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "analysis/memory_classes.h"
#include "analysis/walls.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

// Counts live bytes of scratch while nodes run one after the other, by class of memory. The classes
// of each node are found once: a list schedule asks for a node's change again and again.
class LiveBytes {
 public:
  explicit LiveBytes(const ir::Graph& graph) : nodes_(graph.num_nodes()) {
    const analysis::MemoryClasses classes(graph);
    ir::ValueMap<int> numbers;
    for (const auto& node : graph.nodes()) {
      if (node->is_placeholder() || ops::has_trait(*node, ops::kViewLike)) continue;
      const auto touch = [&](Value value) {
        const Value root = classes.root(value);
        const int64_t bytes = classes.scratch_bytes(root);
        if (bytes == 0) return;
        const auto [found, is_new] = numbers.emplace(root, static_cast<int>(classes_.size()));
        if (is_new) classes_.push_back({bytes});
        std::vector<int>& touched = nodes_[node->id()];
        if (std::find(touched.begin(), touched.end(), found->second) != touched.end()) return;
        touched.push_back(found->second);
        ++classes_[found->second].num_left;
      };
      for (Value operand : node->operands()) touch(operand);
      for (int i = 0; i < node->num_results(); ++i) touch(node->result(i));
    }
  }

  // The change of live bytes when the node has run; the last that touches a class frees it.
  int64_t change(const Node& node) const {
    int64_t bytes = 0;
    for (int touched : nodes_[node.id()]) {
      const Class& each = classes_[touched];
      if (!each.is_live) bytes += each.bytes;
      if (each.num_left == 1) bytes -= each.bytes;
    }
    return bytes;
  }

  void run(const Node& node) {
    for (int touched : nodes_[node.id()]) {
      if (!classes_[touched].is_live) live_ += classes_[touched].bytes;
      classes_[touched].is_live = true;
    }
    peak_ = std::max(peak_, live_);
    for (int touched : nodes_[node.id()]) {
      if (--classes_[touched].num_left == 0) live_ -= classes_[touched].bytes;
    }
  }

  int64_t peak() const { return peak_; }
  bool touches(const Node& node) const { return !nodes_[node.id()].empty(); }

 private:
  struct Class {
    int64_t bytes = 0;
    int num_left = 0;  // nodes that are still to write or read it
    bool is_live = false;
  };
  std::vector<Class> classes_;
  std::vector<std::vector<int>> nodes_;  // the classes that each node writes or reads
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

// The nodes that may run next, those of earlier frames first. Most of the graph's inputs and views
// are here from the beginning and change nothing: they are kept apart, or each choice would look
// through them all.
class Ready {
 public:
  // `walls`: the frame of each node, by id.
  Ready(const LiveBytes& live, const std::vector<int>& walls)
      : live_(live), walls_(walls), idle_(Later{&walls}) {}

  void add(Node* node) {
    if (live_.touches(*node)) {
      touching_.push_back(node);
    } else {
      idle_.push(node);
    }
  }
  bool empty() const { return touching_.empty() && idle_.empty(); }

  // Takes the one that adds fewest live bytes, of equal ones the first in the graph.
  Node* take() {
    const auto best = std::min_element(
        touching_.begin(), touching_.end(),
        [&](const Node* a, const Node* b) { return is_before(*a, *b, live_.change(*b)); });
    const bool is_idle =
        !idle_.empty() && (best == touching_.end() || !is_before(**best, *idle_.top(), 0));
    Node* const node = is_idle ? idle_.top() : *best;
    if (is_idle) {
      idle_.pop();
    } else {
      touching_.erase(best);
    }
    return node;
  }

 private:
  bool is_before(const Node& a, const Node& b, int64_t change_of_b) const {
    if (walls_[a.id()] != walls_[b.id()]) return walls_[a.id()] < walls_[b.id()];
    const int64_t change = live_.change(a);
    return change != change_of_b ? change < change_of_b : a.id() < b.id();
  }

  struct Later {
    const std::vector<int>* walls;
    bool operator()(const Node* a, const Node* b) const {
      const int x = (*walls)[a->id()], y = (*walls)[b->id()];
      return x != y ? x > y : a->id() > b->id();
    }
  };

  const LiveBytes& live_;
  const std::vector<int>& walls_;
  std::vector<Node*> touching_;
  std::priority_queue<Node*, std::vector<Node*>, Later> idle_;
};

std::vector<Node*> greedy_order(const ir::Graph& graph) {
  const std::unordered_set<const Node*> on_demand = made_on_demand(graph);
  Order order(graph);
  std::vector<int> walls = analysis::walls_of(graph);
  walls.resize(graph.num_nodes(), 0);
  std::vector<int> waiting(graph.num_nodes(), 0);
  std::vector<std::vector<Node*>> followers(graph.num_nodes());
  Ready ready(order.live(), walls);
  std::vector<Node*> last;
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
    waiting[node->id()] = static_cast<int>(before.size());
    for (const Node* operand : before) followers[operand->id()].push_back(node.get());
    if (before.empty()) ready.add(node.get());
  }
  while (!ready.empty()) {
    Node* node = ready.take();
    order.run(node);
    for (Node* follower : followers[node->id()]) {
      if (--waiting[follower->id()] == 0) ready.add(follower);
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
