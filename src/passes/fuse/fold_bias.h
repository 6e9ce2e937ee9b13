#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Folds a bias into its matrix product where no generated kernel reads the sum: alone in a kernel,
// the addition would read and write the product once more.
//   before: c = matmul(a, b); d = add(c, bias); q, k, v = split_with_sizes(d)
//   after:  d = addmm(bias, a, b); q, k, v = split_with_sizes(d)
// Needs: nothing. Keeps: types; numbers up to rounding.
bool fold_bias(ir::Graph& graph, PassContext& context);

// Lets a product write f32 itself where its narrow result is only widened, for no kernel: a
// weight's gradient.
//   before: c = matmul(a, b) : bf16; d = convert(c) : f32; f = pack(d, ...)
//   after:  d = matmul(a, b) {dtype=f32}; f = pack(d, ...)
// Keeps: types; numbers up to the rounding that is left out.
bool widen_products(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
