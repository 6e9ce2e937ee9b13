#pragma once

#include <functional>
#include <span>
#include <vector>

#include "passes/pass.h"

namespace monograph::passes {

// A part of the graph with a gradient of its own: autodiff does not look at what makes `outputs`
// from `inputs`. The outputs are nodes that nothing reads before the last of them.
struct CustomGradient {
  std::vector<ir::Value> inputs, outputs;
  // Appends to the graph: from the cotangents of the outputs those of the inputs, of their types;
  // no value where none flows.
  std::function<std::vector<ir::Value>(std::span<const ir::Value> cotangents)> gradient;
};

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
                                      std::span<const ir::Value> wrt, PassContext& context,
                                      std::span<const CustomGradient> custom = {});

}  // namespace monograph::passes
