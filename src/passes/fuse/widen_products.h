#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Lets a product write f32 itself where its narrow result is only widened, for no kernel: a
// weight's gradient.
//   before: c = matmul(a, b) : bf16; d = convert(c) : f32; f = pack(d, ...)
//   after:  d = matmul(a, b) {dtype=f32}; f = pack(d, ...)
// Keeps: types; numbers up to the rounding that is left out.
bool widen_products(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
