#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/literal.h"

namespace monograph::verify {

// The same graph with every f32, bf16 and f16 value in float64. Random numbers stay those of the
// f32 graph. `noise` is added to what library calls and sums give, whose order of additions is
// theirs: what it changes downstream is rounding's to decide.
std::unique_ptr<ir::Graph> in_float64(const ir::Graph& graph, double noise = 0);
ir::Literal in_float64(const ir::Literal& literal);

// The derivative of a graph's first output (a scalar) along one direction of one state, against the
// gradient that the graph gives for it.
struct DirectionalDerivative {
  std::string parameter;
  double from_gradient = 0;    // gradient . direction
  double from_difference = 0;  // (f(p + h d) - f(p - h d)) / 2h
  double error() const;        // relative to the larger one
};

// One for each output "grad.NAME" of the graph, which has the loss as output 0. The direction is
// the gradient's own plus a random one of the same length; both sides are in float64.
// Source: central differences, Press et al., "Numerical Recipes", 5.7.
std::vector<DirectionalDerivative> compare_with_differences(
    const ir::Graph& gradients, const std::map<std::string, ir::Literal>& inputs,
    const std::map<std::string, ir::Literal>& states);

}  // namespace monograph::verify
