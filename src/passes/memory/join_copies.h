#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Lets a kernel that reads what a copy of rematerialize is made of make that too: it costs a store
// then, and no loads. What reads the copy moves behind the kernel.
//   before: h2 = fused(g, u) {silu}; dw = matmul(permute(h2), dy); dg, du = fused(g, u, dh) {...}
//   after:  dg, du, h2 = fused(g, u, dh) {...}; dw = matmul(permute(h2), dy)
// Only where the context says that it pays (PassContext::joins_copies): two kernels as one compile
// to other instructions, so that numbers are equal up to rounding, and a cache may have served the
// loads. Needs: rematerialize ran. Keeps: types.
bool join_copies(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
