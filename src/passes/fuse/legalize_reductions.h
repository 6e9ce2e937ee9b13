#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Splits a reduction over axes that are neither the first nor the last ones into reductions that
// are.
//   before: y = sum(x) {axes=[0,2], keepdim=false} : f32[4,5,6] -> f32[5]
//   after:  r = sum(x) {axes=[2], keepdim=false}; y = sum(r) {axes=[0], keepdim=false}
// An axis in the middle is permuted to the end first. Keeps: types; numbers up to rounding.
bool legalize_reductions(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
