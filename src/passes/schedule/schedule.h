#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Orders the nodes for less memory: a greedy list schedule runs, of the nodes that are ready, the
// one that adds the fewest live bytes, and replaces the traced order where its peak is lower.
//   before: a = matmul(x, w); b = matmul(y, w); c = matmul(a, v); d = matmul(b, v)
//   after:  a = matmul(x, w); c = matmul(a, v); b = matmul(y, w); d = matmul(b, v)
// The optimizer's nodes stay last, in their order: they write over what others read. Frames of a
// pipeline stay in order. Needs: kernels are final. Keeps: all but the order.
bool schedule(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
