#pragma once

#include "ops/division.h"

// What the reductions share: attributes `axes` and `keepdim`.
namespace monograph::ops {

// The operand's dtype, its shape without the axes (1 in their place with keepdim).
std::vector<ir::TensorType> infer_reduction(const InferContext& context);

// `shape` with 1 in place of each axis.
ir::Shape with_ones(const ir::Shape& shape, const std::vector<int64_t>& axes);

// For each element of the operand, the position of the result's element that it goes to.
std::vector<int64_t> reduced_positions(const ir::Node& node, const ir::Shape& operand);

// Over the sharded dim each rank reduces its part, what is left to do over ranks is `reduction`.
std::optional<Division> divide_reduction(const DivisionContext& context,
                                         ir::Placement::Reduction reduction);

std::vector<Sample> samples_reduction();
std::vector<BadSample> bad_samples_reduction();

}  // namespace monograph::ops
