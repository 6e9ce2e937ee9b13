#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/equal_values.h"

namespace monograph::analysis {

// A state that ranks of an axis hold copies of and would update differently.
struct Divergence {
  std::string state, axis;
};

// The parameters and moments of a step that become different on the ranks of one of `axes`: their
// gradients were not reduced over it. `parts`: of which states, by name, ranks of which axes hold
// parts and no copies. Inputs differ over `batch_axes`, states begin equal.
std::vector<Divergence> check_replicas(const ir::Graph& graph, const Axes& axes,
                                       const Axes& batch_axes,
                                       const std::map<std::string, Axes>& parts);

}  // namespace monograph::analysis
