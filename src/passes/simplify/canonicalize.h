#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Gives equal computations one form, so that later passes need to know one.
//   before: a = add(c, x)                      after: a = add(x, c)        (c constant, or defined
//   later) before: r = reshape(reshape(x))            after: r = reshape(x) before: p =
//   permute(permute(x))            after: p = permute(x), axes composed before: p = permute(x), e =
//   expand(x), only dims of 1 move or are added
//                                              after: p, e = reshape(x)
//   before: e = expand(expand(x))              after: e = expand(x)
//   before: reshape, permute, expand, slice, cat or convert that changes nothing
//                                              after: its operand
//   before: a = add(x, neg(y)); s = sub(x, neg(y)); m = mul(neg(x), neg(y)); t = sub(x, c)
//   after:  a = sub(x, y);      s = add(x, y);      m = mul(x, y);           t = add(x, -c)
// Runs to a fixed point. Keeps: values bit for bit (which of two NaNs or zeros apart), types.
// Leaves nodes without users.
bool canonicalize(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
