#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Places the collectives of sharded units so that they run beside the computation while few units
// lie in memory as a whole. A gather begins where the unit before it is first read, so that at most
// two units are gathered at a time; the gradients of a unit are sent while those of the next are
// made, and are waited for before those of the one after it are sent, so that their memory serves
// again.
//   before: use(h.0); s = all_gather_start(h.1); d = all_gather_done(s); use(h.1)
//   after:  s = all_gather_start(h.1); use(h.0); d = all_gather_done(s); use(h.1)
// Needs: overlap_collectives. Keeps: numbers, the order of collectives.
bool prefetch_units(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
