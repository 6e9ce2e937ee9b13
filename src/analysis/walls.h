#pragma once

#include <vector>

#include "ir/graph.h"

namespace monograph::analysis {

// A stage of a pipeline does one frame after the other: a forward or backward of a micro-batch, or
// a send or recv between two of them. Gives the frame in which each node runs, by id (the graph
// must be renumbered): its own (Provenance::frame), or that of an earlier one that reads it.
// Between frames stand walls: passes fuse and move nodes within a frame only, for what waits behind
// a wall may wait for another rank. Empty where the step has no frames.
std::vector<int> walls_of(const ir::Graph& graph);

}  // namespace monograph::analysis
