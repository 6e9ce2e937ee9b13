#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace monograph::ir {

// Where each node stands in a graph. One flat table (open addressing, at most half full): made
// without an allocation for each node, and never follows the pointer that it is asked for. Valid
// until nodes are added, removed or moved.
class NodePositions {
 public:
  explicit NodePositions(const Graph& graph);

  // From 0; -1 for null and for a node that is not of the graph.
  int operator()(const Node* node) const;

 private:
  size_t first_slot(const Node* node) const;

  std::vector<std::pair<const Node*, int>> slots_;  // null: empty
  int shift_ = 0;                                   // of a hash, to the number of a slot
};

}  // namespace monograph::ir
