#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Folds a bias into its matrix product where no generated kernel reads the sum: alone in a kernel,
// the addition would read and write the product once more.
//   before: c = matmul(a, b); d = add(c, bias); q, k, v = split_with_sizes(d)
//   after:  d = addmm(bias, a, b); q, k, v = split_with_sizes(d)
// Needs: nothing. Keeps: types; numbers up to rounding.
bool fold_bias(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
