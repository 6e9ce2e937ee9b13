#include "passes/collective/prefetch_units.h"

#include <algorithm>
#include <unordered_map>

#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;

bool is_of_unit(const Node& node, std::string_view op) {
  return node.is(op) && node.attributes().contains("unit");
}

class UnitPlacement {
 public:
  explicit UnitPlacement(const ir::Graph& graph) : users_(ir::users_of(graph)) {
    for (const auto& node : graph.nodes()) order_.push_back(node.get());
  }

  std::vector<Node*> run() {
    place_gathers();
    place_reductions();
    std::vector<Node*> result;
    for (Node* node : order_) {
      if (const auto found = before_.find(node); found != before_.end()) {
        result.insert(result.end(), found->second.begin(), found->second.end());
      }
      if (!moved_.contains(node)) result.push_back(node);
    }
    return result;
  }

 private:
  // The first node that reads the elements, and shows them in no other form only.
  Node* first_reader(Value value) const {
    Node* first = nullptr;
    const auto found = users_.find(value);
    if (found == users_.end()) return nullptr;
    for (Node* user : found->second) {
      Node* reader = user;
      if (ops::has_trait(*user, ops::kViewLike)) {
        reader = nullptr;
        for (int i = 0; i < user->num_results(); ++i) {
          reader = earlier(reader, first_reader(user->result(i)));
        }
      }
      first = earlier(first, reader);
    }
    return first;
  }

  static Node* earlier(Node* a, Node* b) {
    if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
    return a->id() < b->id() ? a : b;
  }

  void move(Node* node, Node* before) {
    moved_.insert(node);
    before_[before].push_back(node);
  }

  using Gather = std::pair<Node*, Node*>;  // first reader and start

  // The first reader of the unit before it that is not so much smaller that its reading hides
  // nothing.
  Node* reader_before(const std::vector<Gather>& gathers, size_t at) const {
    constexpr int64_t kSmallShare = 8;
    const int64_t bytes = gathers[at].second->types()[0].num_bytes();
    for (size_t i = at; i-- > 0;) {
      const Gather& gather = gathers[i];
      if (gather.second->types()[0].num_bytes() * kSmallShare >= bytes) return gather.first;
    }
    return order_.front();
  }

  // With the kernel that narrows its part.
  void move_start(Node* start, Node* before) {
    Node* const source = start->operand(0).node;
    if (source->id() >= before->id()) {
      const auto& leaves = source->operands();
      const bool is_kernel = source->body() != nullptr;
      const bool is_first = is_kernel && std::all_of(leaves.begin(), leaves.end(), [&](Value leaf) {
                              return leaf.node->is_placeholder() && leaf.node->id() < before->id();
                            });
      if (!is_first || moved_.contains(source)) return;
      move(source, before);
    }
    move(start, before);
  }

  // In order of their first readers.
  void place_gathers() {
    std::vector<Gather> gathers;
    for (Node* node : order_) {
      if (!is_of_unit(*node, "all_gather_start")) continue;
      if (Node* reader = first_reader(node->result())) gathers.emplace_back(reader, node);
    }
    std::stable_sort(gathers.begin(), gathers.end(),
                     [](const auto& a, const auto& b) { return a.first->id() < b.first->id(); });
    for (size_t i = 0; i < gathers.size(); ++i) {
      move_start(gathers[i].second, reader_before(gathers, i));
    }
    for (const auto& [reader, start] : gathers) {
      for (Node* done : users_.at(start->result())) move(done, reader);
      move_views(start, reader);
    }
  }

  // Views of what was gathered go along: they stand before their reader.
  void move_views(Node* start, Node* reader) {
    std::vector<Node*> open = users_.at(start->result());
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for (int i = 0; i < node->num_results(); ++i) {
        const auto found = users_.find(node->result(i));
        if (found == users_.end()) continue;
        for (Node* user : found->second) {
          const bool is_first = ops::has_trait(*user, ops::kViewLike) &&
                                user->id() < reader->id() && !moved_.contains(user);
          if (!is_first) continue;
          move(user, reader);
          open.push_back(user);
        }
      }
    }
  }

  void place_reductions() {
    std::vector<Node*> starts;
    for (Node* node : order_) {
      if (is_of_unit(*node, "reduce_scatter_start")) starts.push_back(node);
    }
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      for (Node* done : users_.at(starts[i]->result())) place_done(done, starts, i);
    }
  }

  // A part that is exchanged over another axis is sent on when the next unit's gradients are there.
  void place_done(Node* done, const std::vector<Node*>& starts, size_t at) {
    const auto found = users_.find(done->result());
    Node* const reader = found == users_.end() ? nullptr : found->second.front();
    if (reader != nullptr && is_of_unit(*reader, "all_reduce_start")) {
      if (done->id() > starts[at + 1]->id()) return;
      move(done, starts[at + 1]);
      move(reader, starts[at + 1]);
    } else if (at + 2 < starts.size() && done->id() > starts[at + 2]->id()) {
      move(done, starts[at + 2]);
    }
  }

  const ir::ValueMap<std::vector<Node*>> users_;
  std::vector<Node*> order_;
  std::unordered_set<const Node*> moved_;
  std::unordered_map<const Node*, std::vector<Node*>> before_;
};

}  // namespace

bool prefetch_units(ir::Graph& graph, PassContext&) {
  graph.renumber();
  std::vector<Node*> before;
  for (const auto& node : graph.nodes()) before.push_back(node.get());
  const std::vector<Node*> after = UnitPlacement(graph).run();
  if (after == before) return false;
  std::vector<std::unique_ptr<Node>> nodes = graph.take_nodes();
  for (Node* node : after) graph.append(std::move(nodes[node->id()]));
  graph.renumber();
  return true;
}

}  // namespace monograph::passes
