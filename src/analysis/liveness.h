#pragma once

#include <span>

#include "ir/graph.h"

namespace monograph::analysis {

// Nodes that an output, a state update or one of `others` needs, with every placeholder (those are
// the signature).
std::unordered_set<const ir::Node*> live_nodes(const ir::Graph& graph,
                                               std::span<const ir::Value> others = {});

}  // namespace monograph::analysis
