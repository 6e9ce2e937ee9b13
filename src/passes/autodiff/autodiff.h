#pragma once

#include <span>

#include "passes/pass.h"

namespace monograph::passes {

// Appends the reverse-mode gradient of a scalar loss (phase: backward). Returns the gradient of
// each value of `wrt` that the loss depends on through differentiable ops; the caller names those
// missing.
//   before: y = f(x); loss = sum(y)
//   after:  ...; backward dy = full(1); backward dx = f'(x) * expand(dy)
// A value used n times gets the sum of n cotangents, added in reverse order of use. A broadcast
// operand's cotangent is summed back to its shape. Each gradient has the dtype and shape of its
// value. UserError when the loss is no floating scalar, or depends on `wrt` through an op with no
// gradient. Source: reverse accumulation, Griewank & Walther, Evaluating Derivatives (2008), ch. 3.
ir::ValueMap<ir::Value> differentiate(ir::Graph& graph, ir::Value loss,
                                      std::span<const ir::Value> wrt, PassContext& context);

}  // namespace monograph::passes
