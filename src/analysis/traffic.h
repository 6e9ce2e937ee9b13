#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace monograph::analysis {

// A value that one generated kernel writes and another reads although nothing but the choice of
// kernels keeps them apart: no library call lies between them, and the value is not a reduction
// that is complete only when its kernel ends.
struct AvoidableEdge {
  ir::Value value;
  const ir::Node* reader = nullptr;
  int64_t bytes = 0;  // of the load, and of the store too if no other reader needs it
};

// The avoidable edges of a fused graph, which must be renumbered. The traffic of its kernels less
// these bytes is the least that any choice of kernels could move, library calls being as they are.
std::vector<AvoidableEdge> avoidable_edges(const ir::Graph& graph);

}  // namespace monograph::analysis
