#include "passes/fuse/isolate.h"

#include "passes/fuse/clusters.h"
#include "passes/fuse/fused_graph.h"

namespace monograph::passes {

bool isolate(ir::Graph& graph, PassContext&) {
  graph.renumber();
  Clusters clusters(graph);
  if (!clusters.has_kernels()) return false;
  put_into_kernels(graph, clusters);
  return true;
}

}  // namespace monograph::passes
