#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Splits each collective into its start and its done, between which other nodes can run; one over
// an axis of one rank is its operand.
//   before: r = all_reduce(x)
//   after:  s = all_reduce_start(x, begin=0, count=elements); d = all_reduce_done(s); r =
//   reshape(d)
// Needs: nothing. Keeps: numbers, types, the order of collectives.
bool start_collectives(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
