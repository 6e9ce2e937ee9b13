#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "frontend/session/compiled_data.h"
#include "frontend/session/pass_fuse.h"
#include "frontend/session/sharding.h"
#include "frontend/session/statement.h"

// Tracing one call, and the guards it holds for.
namespace monograph::session {
namespace {

using Clock = std::chrono::steady_clock;

// The place where the traced function first reads the input.
ir::Provenance first_use(const ir::Graph& graph, const ir::Node* input) {
  for (const auto& node : graph.nodes()) {
    for (const ir::Value operand : node->operands()) {
      if (operand.node == input) return node->provenance();
    }
  }
  return {};
}

// The input in the order of its axes, whatever the order in which they lie in memory.
trace::Tensor in_row_major(const trace::Tensor& input, const std::vector<int64_t>& order) {
  if (order.empty()) return input;
  trace::Axes axes(order.size());
  for (size_t place = 0; place < order.size(); ++place) {
    axes[order[place]] = static_cast<int64_t>(place);
  }
  return input.permute(std::move(axes));
}

// States that passes add, beside those that the function has read.
bool is_of_passes(std::string_view name) {
  return name.starts_with(ir::kCoordinatePrefix) || name.starts_with(ir::kExchangePrefix) ||
         name == ir::kSeedName || name == ir::kStepName;
}

// Of each axis, in order: together, all ranks of the mesh.
std::vector<std::shared_ptr<comm::Communicator>> groups_of(const runtime::MeshContext* mesh) {
  std::vector<std::shared_ptr<comm::Communicator>> groups;
  if (mesh == nullptr) return groups;
  for (const ir::Mesh::Axis& axis : mesh->mesh.axes()) {
    if (axis.size > 1) groups.push_back(mesh->communicators.at(axis.name));
  }
  return groups;
}

}  // namespace

std::string Compiled::Data::input_name(size_t index) const {
  return index < options.input_names.size() ? options.input_names[index]
                                            : fmt::format("input{}", index);
}

void Compiled::Data::run_user_passes(ir::Graph& graph) {
  pass_fallback = {};
  if (options.user_passes.empty() || has_hung) return;
  struct Job {
    std::unique_ptr<ir::Graph> graph;
    std::vector<compiler::PipelineStep> steps;
    compiler::PassOptions passes;
    PassProgress progress;
    void run() {
      passes::PassContext context;
      passes.on_begin = [this](std::string_view pass) { progress.begin(pass); };
      compiler::run_passes(*graph, context, passes, steps);
    }
  };
  const bool verifies = options.verify == "fatal";
  if (has_pass_fuse(options)) {
    const auto job = std::make_shared<Job>();
    job->graph = graph.clone();
    job->steps = options.user_passes;
    job->passes.verify = verifies;
    const runtime::MeshContext* mesh = has_collectives(graph) ? mesh_now().get() : nullptr;
    pass_fallback = run_passes_within_limits(options, mesh, job->progress, [job] { job->run(); });
    if (!pass_fallback.cause.empty()) {
      has_hung = pass_fallback.is_timeout;
      fmt::print(stderr, "warning: '{}' is compiled without its user_passes: {}\n", options.name,
                 pass_fallback.cause);
      return;
    }
  }
  passes::PassContext context;
  compiler::run_passes(graph, context, {.verify = verifies}, options.user_passes);
  graph.renumber();
}

std::unique_ptr<Compiled::Variant> Compiled::trace(Call& call) const {
  const auto start = Clock::now();
  const std::shared_ptr<trace::Trace> traced = trace::Trace::create();
  traced->set_precision({.compute = ir::parse_dtype(data_->options.precision),
                         .residual = ir::parse_dtype(data_->options.residual)});
  if (call.facts.mesh != nullptr) {
    trace::Trace::Axes axes;
    for (const std::string& axis : call.facts.mesh->batch_axes()) {
      axes.emplace_back(axis, call.facts.mesh->size(axis));
    }
    traced->set_batch_axes(std::move(axes));
  }
  traced->set_host_ops(data_->options.host_ops);
  if (!data_->options.fullgraph) {
    traced->set_host_reader([&](const trace::HostRead& each) { return read(*traced, each, call); });
  }
  std::vector<trace::Tensor> tensors;
  for (const InputFacts& input : call.facts.inputs) {
    const std::string name = data_->input_name(tensors.size());
    tensors.push_back(in_row_major(traced->input(name, *input.type), input.order));
  }
  const trace::Outputs outputs = data_->function.call(tensors);
  auto variant = std::make_unique<Variant>();
  variant->graph =
      divide_over_ranks(*traced, traced->finish(outputs), data_->mesh_now().get(), variant->record);
  if (call.facts.mesh != nullptr && data_->options.verify != "off") {
    check_replicas(*traced, *variant->graph, *call.facts.mesh);
  }
  variant->guards = {static_guards(call.facts), traced->switches(), {}, 0};
  if (call.facts.mesh != nullptr) variant->guards.mesh = *call.facts.mesh;
  for (InputGuard& guard : variant->guards.inputs) {
    const auto number = static_cast<size_t>(&guard - variant->guards.inputs.data());
    const std::string name = data_->input_name(number);
    guard.first_use = first_use(*variant->graph, variant->graph->find_placeholder(name));
  }
  variant->reads = traced->host_reads();
  variant->numbers = call.journal;
  variant->unused_parameters = traced->unused_parameters();
  declare_states(*traced, *variant->graph);
  for (const ir::Node* state : variant->graph->states()) variant->states.push_back(state->name());
  for (const ir::Graph::Update& update : variant->graph->updates()) {
    variant->updated.push_back(update.state->name());
  }
  variant->record.trace_ns = std::chrono::nanoseconds(Clock::now() - start).count();
  return variant;
}

void Compiled::declare_states(const trace::Trace& trace, const ir::Graph& graph) const {
  const Mesh& mesh = data_->mesh_now();
  const auto group_of = [&](const std::string& axis, int64_t size) {
    if (mesh == nullptr) return std::shared_ptr<comm::Communicator>();
    if (mesh->communicators.empty()) return std::shared_ptr<comm::Communicator>();  // described
    mesh->along(axis, size);  // refuses another size
    return mesh->communicators.at(axis);
  };
  const std::vector<trace::State> states = states_of(trace);
  const int place = mesh == nullptr ? 0 : static_cast<int>(mesh->mesh.stage(mesh->rank));
  for (const trace::State& state : states) {
    if (const auto& pipeline = state.pipeline()) {
      const auto& ranks = state.pipeline_ranks();
      data_->states->put_on_stages(state, place,
                                   group_of(std::string(ir::kPipelineAxis), pipeline->num_ranks));
      if (std::find(ranks.begin(), ranks.end(), place) == ranks.end()) continue;
    }
    const auto& shard = state.tensor_shard();
    if (shard) data_->states->divide(state, group_of(shard->axis, shard->axis_size));
    if (state.flat_unit() == nullptr) declare(state);
  }
  for (const ir::FlatStates& range : trace::flat_states_of(states)) {
    data_->states->declare(range, states, group_of(range.unit->axis, range.unit->axis_size));
  }
  for (const ir::Node* state : graph.states()) {
    if (!is_of_passes(state->name())) continue;
    if (state->name().starts_with(ir::kResidualPrefix)) {
      data_->states->keep_apart(state->name(), groups_of(mesh.get()));
    }
    declare({state->name(), state->types()[0], ir::StateRole::kBuffer,
             trace::Initializer::constant(0)});
  }
}

// What a rank knows of itself enters a graph through its states.
void Compiled::declare(const trace::State& state) const {
  data_->states->declare(state);
  const Mesh& mesh = data_->mesh_now();
  if (mesh == nullptr || mesh->communicators.empty() ||
      !state.name().starts_with(ir::kCoordinatePrefix)) {
    return;
  }
  const std::string axis = state.name().substr(ir::kCoordinatePrefix.size());
  const auto& group = mesh->along(axis, mesh->mesh.size(axis));
  data_->states->set(state.name(), ir::Literal::scalar(ir::DType::kI64, group.rank()));
}

}  // namespace monograph::session
