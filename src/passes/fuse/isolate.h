#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Puts each node that `fuse` left (when it is switched off) into a kernel of its own.
//   before: e = exp(x); y = matmul(e, w)
//   after:  e = fused(x) { e = exp(x); return e }; y = matmul(e, w)
// Remarks each edge between two of them.
bool isolate(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
