#pragma once

#include <vector>

#include "ir/verifier.h"

namespace monograph::analysis {

// Exchanges of the units of fully sharded training (nn::fully_shard), from a sharded graph to what
// the passes made of it: a unit is gathered once for each window of the step (V5.1), its gradients
// are scattered once at most (V5.2), and each such exchange of `traced` stands in `compiled` once
// (V5.3).
std::vector<ir::Violation> check_units(const ir::Graph& traced, const ir::Graph& compiled);

}  // namespace monograph::analysis
