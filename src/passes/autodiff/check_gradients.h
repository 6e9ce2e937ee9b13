#pragma once

#include <span>
#include <vector>

#include "ir/verifier.h"

namespace monograph::passes {

// What backward gave for one trainable parameter; no gradient: the loss does not depend on it.
struct ParameterGradient {
  ir::Node* parameter = nullptr;
  ir::Value gradient;
};

// Backward consistency of a traced graph, right after differentiation:
//   V2.1  a parameter stands in the list once
//   V2.2  its gradient has its shape and dtype
//   V2.3  its gradient is made in the backward phase and depends on the loss's cotangent
//   V2.4  a parameter without gradient is one that no path leads from to the loss
//   V2.5  the backward nodes are those that the op rules predict: differentiating the forward nodes
//   once
//         more gives the same number of nodes of each op. Not asked where `has_custom`: functions
//         of the user's own make some of them.
std::vector<ir::Violation> check_gradients(const ir::Graph& graph, ir::Value loss,
                                           std::span<const ParameterGradient> gradients,
                                           bool has_custom = false);

}  // namespace monograph::passes
