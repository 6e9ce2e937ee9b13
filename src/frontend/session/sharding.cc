#include "frontend/session/sharding.h"

#include "analysis/check_replicas.h"
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

void check_reads_nothing(const trace::Trace& trace, std::string_view what) {
  if (trace.host_reads().empty()) return;
  const trace::HostRead& read = trace.host_reads()[0];
  throw_user_error("{} is compiled as one graph, but {}\n  at {}:{}\n  {}", what, read.reason(),
                   read.place.file, read.place.line, read.advice());
}

}  // namespace

RankStep divide_over_ranks(const trace::Trace& trace, std::unique_ptr<ir::Graph> graph) {
  const std::vector<trace::State> states = states_of(trace);
  const std::vector<ir::FlatStates> ranges = trace::flat_states_of(states);
  const passes::TensorShards shards = tensor_shards_of(states);
  passes::PassContext context;
  if (!ranges.empty() || !shards.states.empty()) {
    check_reads_nothing(trace, "a model with sharded units");
    graph = passes::shard_tensors(std::move(graph), shards, context);
    graph = passes::shard_units(std::move(graph), ranges, context);
  }
  const passes::ExchangeSavings savings = passes::compress_exchange(*graph, context);
  if (savings.num_gradients > 0) check_reads_nothing(trace, "a step that compresses gradients");
  return {std::move(graph), context.remarks(), savings};
}

void check_replicas(const trace::Trace& trace, const ir::Graph& graph, const ir::Mesh& mesh) {
  analysis::Axes axes;
  for (const std::string& axis : mesh.batch_axes()) {
    if (mesh.size(axis) > 1) axes.insert(axis);
  }
  if (axes.empty() || !trace.host_reads().empty()) return;
  const std::vector<trace::State> states = states_of(trace);
  std::map<std::string, analysis::Axes> parts;
  for (const trace::State& state : states) {
    if (state.tensor_shard()) parts[state.name()] = {state.tensor_shard()->axis};
  }
  for (const ir::FlatStates& range : trace::flat_states_of(states)) {
    parts[range.name] = {range.unit->axis};
  }
  const auto found = analysis::check_replicas(graph, axes, axes, parts);
  if (found.empty()) return;
  throw_user_error(
      "the ranks of axis '{}' would update '{}'{} differently: reduce gradients over it, as "
      "optimizer.step(nn::replicate(loss.backward(), mesh, \"{}\")); with verify off copies may "
      "differ",
      found[0].axis, found[0].state,
      found.size() == 1 ? "" : fmt::format(" and {} other states", found.size() - 1),
      found[0].axis);
}

}  // namespace monograph::session
