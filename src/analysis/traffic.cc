#include "analysis/traffic.h"

#include <algorithm>

#include "analysis/ancestry.h"
#include "analysis/iteration_space.h"

namespace monograph::analysis {
namespace {

using ir::Node;
using ir::Value;

bool is_terminal(Value value) {
  const Value inner = value.node->body()->outputs()[value.index].value;
  return fuse_role(*inner.node) == FuseRole::kTerminal;
}

// An indexed read (an embedding's table, the rows of a segment sum) needs the whole operand in
// memory.
bool is_indexed_read(const Node& reader, Value value) {
  for (int i = 0; i < reader.num_operands(); ++i) {
    if (reader.operand(i) != value) continue;
    const Node* input = reader.body()->nodes()[i].get();
    for (const auto& inner : reader.body()->nodes()) {
      if (fuse_role(*inner) != FuseRole::kIndexed) continue;
      for (Value operand : inner->operands()) {
        if (operand.node == input) return true;
      }
    }
  }
  return false;
}

// Paths between two nodes through a third. The graph must be renumbered.
class Detours {
 public:
  explicit Detours(const ir::Graph& graph)
      : followers_(followers_of(graph)), ancestry_(followers_), marks_(graph.num_nodes(), 0) {}

  bool has(const Node& from, const Node& to) {
    // Most are seen without a walk, which is as long as the model between a layer's forward and its
    // backward.
    for (const Node* user : followers_[from.id()]) {
      if (user != &to && ancestry_.is_ancestor(*user, to)) return true;
    }
    ++mark_;
    std::vector<const Node*> pending = {&from};
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      for (const Node* user : followers_[node->id()]) {
        if (user == &to && node != &from) return true;
        if (user->id() >= to.id() || marks_[user->id()] == mark_) continue;
        marks_[user->id()] = mark_;
        pending.push_back(user);
      }
    }
    return false;
  }

 private:
  const std::vector<std::vector<Node*>> followers_;
  const Ancestry ancestry_;
  std::vector<int> marks_;  // by node: the last walk that came by
  int mark_ = 0;
};

}  // namespace

std::vector<AvoidableEdge> avoidable_edges(const ir::Graph& graph) {
  const auto users = ir::users_of(graph);
  Detours detours(graph);
  ir::ValueSet roots;
  for (Value root : graph.roots()) roots.insert(root);
  std::vector<AvoidableEdge> edges;
  for (const auto& node : graph.nodes()) {
    if (node->body() == nullptr) continue;
    for (int i = 0; i < node->num_results(); ++i) {
      const Value value = node->result(i);
      const auto found = users.find(value);
      if (found == users.end() || is_terminal(value)) continue;
      const size_t first = edges.size();
      for (const Node* reader : found->second) {
        if (reader->body() == nullptr || is_indexed_read(*reader, value)) continue;
        if (!detours.has(*node, *reader)) {
          edges.push_back({value, reader, value.type().num_bytes()});
        }
      }
      const bool stored_for_nobody =
          edges.size() - first == found->second.size() && !roots.contains(value);
      if (stored_for_nobody) edges.back().bytes += value.type().num_bytes();
    }
  }
  return edges;
}

}  // namespace monograph::analysis
