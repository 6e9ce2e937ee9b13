#include "analysis/traffic.h"

#include <algorithm>

#include "analysis/iteration_space.h"

namespace monograph::analysis {
namespace {

using ir::Node;
using ir::Value;
using Users = ir::ValueMap<std::vector<Node*>>;

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

// Whether a path leads from `from` to `to` through a third node.
bool has_detour(const Users& users, Node& from, const Node& to) {
  std::unordered_set<const Node*> seen;
  std::vector<Node*> pending = {&from};
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    for (int i = 0; i < node->num_results(); ++i) {
      const auto found = users.find(node->result(i));
      if (found == users.end()) continue;
      for (Node* user : found->second) {
        if (user == &to && node != &from) return true;
        if (user->id() < to.id() && seen.insert(user).second) pending.push_back(user);
      }
    }
  }
  return false;
}

}  // namespace

std::vector<AvoidableEdge> avoidable_edges(const ir::Graph& graph) {
  const Users users = ir::users_of(graph);
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
        if (!has_detour(users, *node, *reader)) {
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
