#include "frontend/session/sharding.h"

#include "base/error.h"
#include "passes/distribute/shard_units.h"

namespace monograph::session {

std::vector<trace::State> states_of(const trace::Trace& trace) {
  std::vector<trace::State> states;
  for (const auto& known : trace.states()) states.push_back(known.state);
  return states;
}

std::unique_ptr<ir::Graph> shard(const trace::Trace& trace, std::unique_ptr<ir::Graph> graph,
                                 std::vector<passes::Remark>& remarks) {
  const std::vector<ir::FlatStates> ranges = trace::flat_states_of(states_of(trace));
  if (ranges.empty()) return graph;
  if (!trace.host_reads().empty()) {
    throw_user_error(
        "a model with sharded units is compiled as one graph, but {}\n  at {}:{}\n  {}",
        trace.host_reads()[0].reason(), trace.host_reads()[0].place.file,
        trace.host_reads()[0].place.line, trace.host_reads()[0].advice());
  }
  passes::PassContext context;
  graph = passes::shard_units(std::move(graph), ranges, context);
  remarks = context.remarks();
  return graph;
}

}  // namespace monograph::session
