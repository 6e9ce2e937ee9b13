#pragma once

#include "ir/graph.h"
#include "ops/builder.h"

namespace monograph::trace {

// What dtype the products of a trace compute in; all else stays in the dtype it has. Parameters,
// optimizer state, reductions, norms and losses are f32. Every cast is a node.
struct Precision {
  ir::DType compute = ir::DType::kF32;  // of the operands of products: f32 or bf16

  bool narrows(ir::Value operand) const {
    return compute != ir::DType::kF32 && operand.dtype() == ir::DType::kF32;
  }
};

// The value in the narrower dtype. A view of something is the same view of the narrowed thing, and
// a value that was widened is what it was before: one cast, where the value is made.
//   before: w = convert(p, f32); v = reshape(w); y = matmul(v, ...)
//   after:  v' = reshape(p);                     y = matmul(v', ...)
ir::Value narrowed(ops::Builder& build, ir::Value value, ir::DType dtype);

}  // namespace monograph::trace
