#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Removes `detach`, which only tells autodiff where gradients end.
//   before: a = detach(x); y = mul(a, a)
//   after:  y = mul(x, x)
// Needs: autodiff ran. Keeps: values, types.
bool drop_detach(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
