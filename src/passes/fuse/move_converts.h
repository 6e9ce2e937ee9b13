#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Brings conversions to the kernels that they fuse with, so that what lies in memory between is the
// narrow one: a widening moves behind the views that kernels read it through, a narrowing before
// the concatenation that only it reads.
//   split(reshape(convert(x: bf16 -> f32)))  ->  convert(split(reshape(x)))
//   convert(reshape(cat(a, b)): f32 -> bf16) ->  reshape(cat(convert(a), convert(b)))
// The gradient of a weight, which is a product of the backward, stays as exact as its product is.
bool move_converts(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
