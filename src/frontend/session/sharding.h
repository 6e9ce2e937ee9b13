#pragma once

#include <memory>
#include <vector>

#include "frontend/trace/trace.h"
#include "ir/mesh.h"
#include "passes/distribute/compress_exchange.h"

namespace monograph::session {

std::vector<trace::State> states_of(const trace::Trace& trace);

// A step as one rank has it: where states are sharded, and gradients compressed.
struct RankStep {
  std::unique_ptr<ir::Graph> graph;
  std::vector<passes::Remark> remarks;
  passes::ExchangeSavings savings;
};

// Of the graph of a finished trace. UserError where that is to be and the trace reads values on the
// host.
RankStep divide_over_ranks(const trace::Trace& trace, std::unique_ptr<ir::Graph> graph);

// UserError when the step would make copies of a parameter differ: its gradient is not reduced over
// an axis whose ranks have parts of the batch. A trace that reads values on the host is not judged.
void check_replicas(const trace::Trace& trace, const ir::Graph& graph, const ir::Mesh& mesh);

}  // namespace monograph::session
