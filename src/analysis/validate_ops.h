#pragma once

#include <vector>

#include "ir/verifier.h"

namespace monograph::analysis {

// Each node against its op: registered, arity, attributes, dtypes, shapes and the result types that
// the op infers (V1.20 to V1.23, docs/validation.md), bodies of fused nodes included. The structure
// must be sound (ir::verify): operands are read. Empty when all is well.
std::vector<ir::Violation> validate_ops(const ir::Graph& graph);

}  // namespace monograph::analysis
