#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Does values again shortly before their late readers, instead of keeping them while memory is
// scarcest, until the live bytes meet the context's memory goal or nothing helps. Greedy: of the
// values that only wait while the peak lasts, the one that frees most bytes for the time of making
// it again (Chen et al., "Training deep nets with sublinear memory cost", 2016, drop values by such
// a rule; PyTorch's partitioner, by a cut of the graph).
//   before: h = fused(p) {gelu}; y = matmul(h, w); ...; dw = matmul(permute(h), dy)
//   after:  h = fused(p) {gelu}; y = matmul(h, w); ...; h2 = fused(p) {gelu};
//           dw = matmul(permute(h2), dy)
// Of a kernel, only the pointwise part that makes the value is done again, from what is in memory
// then: row reductions are kept. Products and attention are done again only if the goal says so.
// Random masks come out the same: they are a function of seed, step and element. Needs: kernels and
// their order are final. Keeps: all numbers, bit by bit.
bool rematerialize(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
