#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Turns a gather from a value that a kernel could compute into a sum over a selection, which fuses
// with it: a gather reads its operand in memory.
//   before: l = add(p, bias); y = gather(l, i)
//   after:  l = add(p, bias); y = sum(where(eq(iota, i), l, 0)) {axes=[last], keepdim=true}
// Needs: nothing. Keeps: types, numbers (the sum has one term that is not zero).
bool select_gathers(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
