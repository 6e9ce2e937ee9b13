#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Turns pointwise, creation, reduction and indexed nodes into `fused` nodes, one a generated
// kernel.
//   before: m = sum(x); d = sub(x, m); e = mul(d, d)
//   after:  e = fused(x) { m = sum(x); d = sub(x, m); e = mul(d, d); return e }
// Every such node ends in some fused node, alone if nothing fits. Edges between kernels that did
// not fuse get a remark with the reason. Needs: mixed reductions legalised, detach dropped. Keeps:
// values, types; order of the remaining nodes.
bool fuse(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
