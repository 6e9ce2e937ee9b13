#pragma once

#include "passes/fuse/clusters.h"
#include "passes/pass.h"

namespace monograph::passes {

// Does cheap pointwise values again in the kernels that read them, where that moves fewer bytes
// than storing them once and loading them in each: GELU's input from the product and bias, a
// normalised row from its input, mean and deviation. Values that are stored anyway are the leaves,
// as are small ones, and a narrow one in place of a wide one that it is widened to.
//   before: kernel 1 stores xhat; kernel 2 loads xhat
//   after:  kernel 1 stores nothing more; kernel 2 computes xhat from x (loaded anyway), mean, rstd
void recompute_across_kernels(const ir::Graph& graph, Clusters& clusters, PassContext& context);

}  // namespace monograph::passes
