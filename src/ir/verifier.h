#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace monograph::ir {

// A broken rule. docs/validation.md lists the codes.
struct Violation {
  std::string code;            // "V1.3"
  const Node* node = nullptr;  // null: the graph as a whole, or an output
  std::string message;         // with the node as it is printed
};

struct VerifyOptions {
  // V1.14: passes leave nodes without effect behind until eliminate_dead_nodes runs.
  bool dead_nodes = true;
};

// The structure of a graph and of its fused bodies: V1.1 to V1.19, V1.24 to V1.27. Empty when all
// is well. Never throws and never follows a pointer out of the graph. Ops and types are judged by
// analysis::validate_ops.
std::vector<Violation> verify(const Graph& graph, VerifyOptions options = {});

// One line a violation: "V1.3 %4 = add(%1, %?) : f32[2]: operand 1 is ...".
std::string to_text(const std::vector<Violation>& violations);

}  // namespace monograph::ir
