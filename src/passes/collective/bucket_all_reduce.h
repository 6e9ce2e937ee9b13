#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Gradients that are reduced one by one and then packed are reduced in buckets: contiguous,
// page-aligned ranges of the packed memory, so that nothing is copied. Their sizes: bucket_sizes.h.
// A common factor (of a mean) moves behind the pack, where it fuses with what reads it.
//   before: p = pack(mul(all_reduce(g1), c), mul(all_reduce(g2), c), ...)
//   after:  s1 = all_reduce_start(g1, g2, begin=0, count=n1); d1 = all_reduce_done(s1)
//           s2 = all_reduce_start(g2, g3, begin=.., count=n2); d2 = all_reduce_done(s2)
//           p = mul(cat(d1, d2), c)              (g2 lies across the border of both)
// Needs: operands of products in canonical order; fuse did not run. Keeps: numbers, but for bits of
// the padding. Operands that are reduced otherwise, or not at all, stand between the buckets.
bool bucket_all_reduce(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
