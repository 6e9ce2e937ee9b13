#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Removes nodes that no output and no state update needs. Placeholders stay: they are the
// signature.
//   before: a = tanh(x); b = exp(x); return b
//   after:  b = exp(x); return b
// Keeps: values, types, order.
bool eliminate_dead_nodes(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
