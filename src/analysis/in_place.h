#pragma once

#include "ir/graph.h"

namespace monograph::analysis {

// Whether a kernel may write its result number `result` over its operand number `operand`, if both
// lie alike: of one type and as large as the kernel's space, each element read and written in one
// place, and read in no sweep after the one that writes (docs/loop.md, "In place"). One element of
// each row may be picked by an index, in an earlier sweep.
//   softmax's backward may write over its gradient; x - mean(x) over x; x[ids] over nothing;
//   the gradient of logits over the logits
bool may_overwrite(const ir::Graph& body, int result, int operand);

// Each element is read before the same element is written: any result may lie over any operand of
// its type.
bool is_elementwise(const ir::Graph& body);

}  // namespace monograph::analysis
