#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Replaces nodes by cheaper ones of equal value.
//   before                                        after
//   add(x, 0), sub(x, 0), mul(x, 1), div(x, 1)    x, expanded to the result's shape
//   mul(x, -1), div(x, -1)                        neg(x)
//   neg(neg(x)), logical_not(logical_not(b))      x, b
//   maximum(x, x), minimum, logical_and, _or      x
//   where(c, x, x), where(true, x, y)             x
//   pow(x, 2), pow(x, 1), pow(x, 0), pow(x, -1)   mul(x, x), x, 1, reciprocal(x)
//   div(x, c), c a power of two                   mul(x, 1/c)
//   mul(mul(x, c), d), c or d a power of two      mul(x, c*d)
//   integers: mul(x, 0), sub(x, x), add(add(x, c), d)       0, 0, add(x, c+d)
//   convert(convert(x)), the inner one exact      convert(x), or x
//   add(expand(x), y), any pointwise op           add(x, y), where y's shape keeps the result's
//   sum(expand(x)), amax(expand(x))               mul(x, n), x, over the axes that expand made
//   sum, amax over axes of size 1                 reshape(x)
// Values stay equal as numbers: zeros of either sign count as equal, powers of two are exact short
// of overflow and subnormals, and the sum of n equal numbers is n times one, rounded once. Nothing
// that would hide a NaN or infinity: a floating mul(x, 0) or sub(x, x) stays. Leaves nodes without
// users. Needs: canonicalize (constants on the right).
bool simplify_algebra(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
