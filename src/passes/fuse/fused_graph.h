#pragma once

#include "passes/fuse/clusters.h"

namespace monograph::passes {

// Puts the nodes of each group that is a kernel, with its clones and the creation nodes that it
// reads, into one `fused` node. Drops what no result needs. The order stays close to the old one: a
// kernel stands where its last member stood.
void put_into_kernels(ir::Graph& graph, Clusters& clusters);

}  // namespace monograph::passes
