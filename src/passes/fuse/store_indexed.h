#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Puts a copy between an indexed read and a constant, a counter or random numbers that it reads:
// kernels make those where they need them, and an index or a table must lie in memory.
//   before: i = iota() : i64[4]; y = embedding(w, i)
//   after:  i = iota() : i64[4]; c = clone(i); y = embedding(w, c)
// The copy becomes a kernel that writes the numbers. Keeps: types, numbers.
bool store_indexed(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
