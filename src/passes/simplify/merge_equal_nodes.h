#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Common subexpression elimination: of nodes with equal op, operands and attributes the first
// stays, with its phase and place.
//   before: a = exp(x); b = exp(x); c = add(a, b)
//   after:  a = exp(x); c = add(a, a)
// Random ops hold their stream as an attribute, so two streams are never merged. Fused nodes are
// left alone. Needs: canonicalize, to see more. Keeps: values, types, order.
bool merge_equal_nodes(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
