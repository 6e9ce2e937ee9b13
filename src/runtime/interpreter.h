#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/literal.h"
#include "runtime/mesh_context.h"

namespace monograph::runtime {

using StateMap = std::map<std::string, ir::Literal>;  // by logical name
using InputMap = std::map<std::string, ir::Literal>;

// Runs one step op by op, each by its reference: the oracle that compiled code is compared with.
// Returns the graph's outputs in order, and writes the updates into `states`, all at once after the
// last node has run. A fused node runs its body, inside which bf16 and f16 values are float32, as
// in a kernel's registers: they are rounded where they leave the body.
// Collectives run on `mesh` (null: one rank).
// UserError: an input or state is missing, unknown (inputs only), or of another type than the
// graph's; a reference refuses its values (an id out of range). `states` is then unchanged.
std::vector<ir::Literal> interpret(const ir::Graph& graph, const InputMap& inputs, StateMap& states,
                                   const MeshContext* mesh = nullptr);

}  // namespace monograph::runtime
