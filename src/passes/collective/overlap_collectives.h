#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Begins each collective as soon as its operands are there and ends it where its result is first
// read, so that all that is between hides it. Few elements that are made of a result alone (the
// mean of a loss) are made late, too.
//   before: g = f(x); h = f(y); s = all_reduce_start(g); d = all_reduce_done(s); u = add(d, h)
//   after:  g = f(x); s = all_reduce_start(g); h = f(y); d = all_reduce_done(s); u = add(d, h)
// Needs: schedule ran. Keeps: numbers; order of all other nodes, and of the starts unless one's
// operands are there before.
bool overlap_collectives(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
