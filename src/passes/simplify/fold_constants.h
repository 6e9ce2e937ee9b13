#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Computes nodes whose operands are all constants (`full`), by the op's reference.
//   before: a = full(2); b = full(3); c = mul(a, b); d = expand(c)
//   after:  c = full(6); d = full(6), of d's shape
// Folds pointwise ops, ops that only move elements, and reductions of at most 65,536 elements. A
// result that no `full` holds (not uniform, or an integer above 2^53) is left alone. Keeps: values
// as the reference computes them, rounded after every op; types. Leaves nodes without users.
bool fold_constants(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
