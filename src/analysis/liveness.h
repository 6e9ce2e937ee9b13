#pragma once

#include "ir/graph.h"

namespace monograph::analysis {

// Nodes that an output or a state update needs, with every placeholder (those are the signature).
std::unordered_set<const ir::Node*> live_nodes(const ir::Graph& graph);

}  // namespace monograph::analysis
