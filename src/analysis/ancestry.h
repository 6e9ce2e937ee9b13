#pragma once

#include <vector>

#include "ir/graph.h"

namespace monograph::analysis {

// The users of all results of each node, by its id. The graph must be renumbered.
std::vector<std::vector<ir::Node*>> followers_of(const ir::Graph& graph);

// Answers "is there a path" for most pairs of nodes at once: a depth-first forest numbers the
// nodes, and a node reaches all in its subtree. A path outside the forest is not seen.
class Ancestry {
 public:
  // `followers`: see followers_of.
  explicit Ancestry(const std::vector<std::vector<ir::Node*>>& followers);

  bool is_ancestor(const ir::Node& from, const ir::Node& to) const {
    const int number = first_[to.id()];
    return first_[from.id()] <= number && number <= last_[from.id()];
  }

 private:
  std::vector<int> first_, last_;  // by node: its number, and the greatest in its subtree
};

}  // namespace monograph::analysis
