#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Moves a constant factor of a sum over rows before the sum, where it joins the kernel that makes
// the summands; after it, it would be a kernel of its own.
//   before: s = sum(x) {axes=[0,1]}; y = mul(s, 0.5)
//   after:  z = mul(x, 0.5); y = sum(z) {axes=[0,1]}
// Only where nothing else reads the sum. Needs: constants on the right. Keeps: types; numbers up to
// rounding.
bool scale_before_sum(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
