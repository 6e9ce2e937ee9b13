#pragma once

#include <memory>
#include <vector>

#include "frontend/trace/trace.h"

namespace monograph::session {

std::vector<trace::State> states_of(const trace::Trace& trace);

// The graph of a finished trace as one rank has it, where states are sharded. UserError for a trace
// that reads values on the host.
std::unique_ptr<ir::Graph> shard(const trace::Trace& trace, std::unique_ptr<ir::Graph> graph,
                                 std::vector<passes::Remark>& remarks);

}  // namespace monograph::session
