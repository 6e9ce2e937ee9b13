#include "frontend/session/sharding.h"

#include "analysis/check_replicas.h"
#include "base/error.h"
#include "passes/distribute/extract_stage.h"
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

// Null: the states are in no pipeline.
const ir::Pipeline* pipeline_of(const std::vector<trace::State>& states) {
  const ir::Pipeline* pipeline = nullptr;
  for (const trace::State& state : states) {
    if (state.pipeline() == nullptr) continue;
    if (pipeline != nullptr && pipeline != state.pipeline().get()) {
      throw_user_error("a step of two models, each in a pipeline of its own: use one model");
    }
    pipeline = state.pipeline().get();
  }
  return pipeline;
}

std::unique_ptr<ir::Graph> extract_stage(const trace::Trace& trace,
                                         std::unique_ptr<ir::Graph> graph,
                                         const ir::Pipeline& pipeline,
                                         const std::vector<trace::State>& states,
                                         const runtime::MeshContext* mesh,
                                         passes::PassContext& context, TraceRecord& record) {
  if (mesh != nullptr && mesh->mesh.size(ir::kPipelineAxis) != pipeline.num_ranks) {
    throw_user_error("a pipeline of {} ranks on {}: give nn::pipeline the mesh of the session",
                     pipeline.num_ranks, mesh->mesh.str());
  }
  passes::PipelineRequest request{pipeline};
  if (mesh != nullptr) request.rank = static_cast<int>(mesh->mesh.stage(mesh->rank));
  request.part_of = [&](const ir::Node& node) { return trace.part_of(node); };
  for (const trace::State& state : states) {
    if (state.pipeline() != nullptr) {
      request.ranks_of_states[state.name()] = state.pipeline_ranks();
    }
  }
  record.pipeline.emplace();
  return passes::extract_stage(std::move(graph), request, context, &*record.pipeline);
}

}  // namespace

std::unique_ptr<ir::Graph> divide_over_ranks(const trace::Trace& trace,
                                             std::unique_ptr<ir::Graph> graph,
                                             const runtime::MeshContext* mesh,
                                             TraceRecord& record) {
  const std::vector<trace::State> states = states_of(trace);
  const std::vector<ir::FlatStates> ranges = trace::flat_states_of(states);
  const passes::TensorShards shards = tensor_shards_of(states);
  const ir::Pipeline* const pipeline = pipeline_of(states);
  passes::PassContext context;
  if (!ranges.empty() || !shards.states.empty() || pipeline != nullptr) {
    check_reads_nothing(trace, "a model that is sharded, or in a pipeline,");
  }
  if (pipeline != nullptr) {
    graph = extract_stage(trace, std::move(graph), *pipeline, states, mesh, context, record);
  }
  if (!ranges.empty() || !shards.states.empty()) {
    graph = passes::shard_tensors(std::move(graph), shards, context);
    graph = passes::shard_units(std::move(graph), ranges, context);
  }
  record.savings = passes::compress_exchange(*graph, context);
  if (record.savings.num_gradients > 0) {
    check_reads_nothing(trace, "a step that compresses gradients");
    if (pipeline != nullptr) {
      throw_user_error("a pipeline that compresses gradients: leave one of them out");
    }
  }
  record.remarks = context.remarks();
  return graph;
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
