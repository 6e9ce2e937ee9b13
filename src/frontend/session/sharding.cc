#include "frontend/session/sharding.h"

#include "base/error.h"
#include "passes/distribute/shard_tensors.h"
#include "passes/distribute/shard_units.h"

namespace monograph::session {

std::vector<trace::State> states_of(const trace::Trace& trace) {
  std::vector<trace::State> states;
  for (const auto& known : trace.states()) states.push_back(known.state);
  return states;
}

namespace {

passes::TensorShards tensor_shards_of(const std::vector<trace::State>& states) {
  passes::TensorShards shards;
  for (const trace::State& state : states) {
    if (!state.tensor_shard()) continue;
    shards.axis = state.tensor_shard()->axis;
    shards.size = state.tensor_shard()->axis_size;
    shards.is_sequence_parallel = state.tensor_shard()->is_sequence_parallel;
    shards.states[state.name()] = state.tensor_shard()->placement;
  }
  return shards;
}

}  // namespace

std::unique_ptr<ir::Graph> shard(const trace::Trace& trace, std::unique_ptr<ir::Graph> graph,
                                 std::vector<passes::Remark>& remarks) {
  const std::vector<trace::State> states = states_of(trace);
  const std::vector<ir::FlatStates> ranges = trace::flat_states_of(states);
  const passes::TensorShards shards = tensor_shards_of(states);
  if (ranges.empty() && shards.states.empty()) return graph;
  if (!trace.host_reads().empty()) {
    throw_user_error(
        "a model with sharded units is compiled as one graph, but {}\n  at {}:{}\n  {}",
        trace.host_reads()[0].reason(), trace.host_reads()[0].place.file,
        trace.host_reads()[0].place.line, trace.host_reads()[0].advice());
  }
  passes::PassContext context;
  graph = passes::shard_tensors(std::move(graph), shards, context);
  graph = passes::shard_units(std::move(graph), ranges, context);
  remarks = context.remarks();
  return graph;
}

}  // namespace monograph::session
