#pragma once

#include <functional>
#include <vector>

#include "frontend/trace/tensor.h"

// Control flow that depends on values and stays in the graph: no read on the host, gradients
// through all of it. A graph has no jumps: `cond` computes both branches and selects, loops are
// unrolled as they are traced. So a collective inside runs on every rank, whatever the ranks'
// predicates are. See docs/control_flow.md for what that costs.
namespace monograph::trace {

using Tensors = std::vector<Tensor>;

// What `then` gives of the operands where the predicate (bool, one element) holds, else what
// `otherwise` gives. UserError unless both give tensors of the same number, dtypes and shapes.
Tensors cond(const Tensor& predicate, const std::function<Tensors(const Tensors&)>& then,
             const std::function<Tensors(const Tensors&)>& otherwise, const Tensors& operands,
             Location where = Location::current());

struct ScanStep {
  Tensors carry;    // of the types of the initial one
  Tensors outputs;  // of this step
};

// Calls body(carry, x) for each x along axis 0 of `inputs`, from the first to the last; gives the
// last carry, and the outputs stacked along a new axis 0. UserError when inputs differ in length,
// or the carry changes its type.
ScanStep scan(const std::function<ScanStep(const Tensors& carry, const Tensors& inputs)>& body,
              const Tensors& carry, const Tensors& inputs, Location where = Location::current());

struct WhileResult {
  Tensors state;
  Tensor finished;  // bool: the condition did not hold any more after at most max_trips
};

// state = body(state) as long as condition(state) (bool, one element) holds, at most max_trips
// times.
WhileResult while_loop(const std::function<Tensor(const Tensors&)>& condition,
                       const std::function<Tensors(const Tensors&)>& body, const Tensors& state,
                       int64_t max_trips, Location where = Location::current());

}  // namespace monograph::trace
