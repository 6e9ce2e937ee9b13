#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Leaves out exchanges that tell no rank anything new: of zeros; of values that all ranks of the
// axis have already, because they follow from constants and from what was reduced or gathered over
// it; gathers of which one part is read.
//   before: r = all_reduce(full(0)); t = all_reduce(exp(all_reduce(x)))
//           p = slice(all_gather(x), 0, 4, 8)      of 4 rows a rank
//   after:  r = full(0); t = mul(exp(all_reduce(x)), ranks); p = broadcast(x) from rank 1
// Tells of those that nobody reads, which eliminate_dead_nodes removes; merge_equal_nodes tells of
// equal ones. Ranks of an axis with sends and recvs run different steps: its exchanges stay. Needs:
// canonical forms. Keeps: types; numbers up to the order of sums.
bool remove_redundant_traffic(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
