#pragma once

#include <string_view>
#include <unordered_map>

#include "ir/graph.h"
#include "ops/builder.h"

namespace monograph::trace {

// What dtype the products of a trace compute in; all else stays in the dtype it has. Parameters,
// optimizer state, reductions, norms and losses are f32. Every cast is a node.
struct Precision {
  ir::DType compute = ir::DType::kF32;  // of the operands of products: f32 or bf16
  // What the residual stream is rounded to where something is added to it, as its gradient is on
  // the way back: what lies in memory between is narrow.
  ir::DType residual = ir::DType::kF32;

  // Products; with a narrow residual stream, the embedding that it begins with too.
  bool is_narrow(std::string_view op) const;
  bool narrows(ir::Value operand) const {
    return compute != ir::DType::kF32 && operand.dtype() == ir::DType::kF32;
  }
};

// Narrows the values of one trace to one dtype, each once. A view of something is the same view of
// the narrowed thing, and a value that was widened is what it was before: one cast, where the value
// is made.
//   before: w = convert(p, f32); v = reshape(w); y = matmul(v, ...)
//   after:  v' = reshape(p);                     y = matmul(v', ...)
class Narrowing {
 public:
  ir::Value operator()(ops::Builder& build, ir::Value value, ir::DType dtype);

 private:
  ir::ValueMap<ir::Value> casts_;
  std::unordered_map<const ir::Node*, ir::Node*> views_;  // all results of a split are one node's
};

}  // namespace monograph::trace
