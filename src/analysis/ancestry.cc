#include "analysis/ancestry.h"

namespace monograph::analysis {

std::vector<std::vector<ir::Node*>> followers_of(const ir::Graph& graph) {
  std::vector<std::vector<ir::Node*>> followers(graph.num_nodes());
  for (const auto& node : graph.nodes()) {
    for (ir::Value operand : node->operands()) {
      std::vector<ir::Node*>& users = followers[operand.node->id()];
      if (users.empty() || users.back() != node.get()) users.push_back(node.get());
    }
  }
  return followers;
}

Ancestry::Ancestry(const std::vector<std::vector<ir::Node*>>& followers)
    : first_(followers.size(), -1), last_(followers.size(), -1) {
  struct Visit {
    int node;
    size_t next = 0;  // follower
  };
  std::vector<Visit> path;
  int count = 0;
  for (int root = 0; root < static_cast<int>(followers.size()); ++root) {
    if (first_[root] >= 0) continue;
    first_[root] = count++;
    path.push_back({root});
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next == followers[visit.node].size()) {
        last_[visit.node] = count - 1;
        path.pop_back();
        continue;
      }
      const int follower = followers[visit.node][visit.next++]->id();
      if (first_[follower] >= 0) continue;
      first_[follower] = count++;
      path.push_back({follower});
    }
  }
}

}  // namespace monograph::analysis
