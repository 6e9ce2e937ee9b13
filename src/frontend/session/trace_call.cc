#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "frontend/session/compiled_data.h"
#include "frontend/session/sharding.h"

// Tracing one call: the guards it holds for, and the values read on the way.
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

// A part of a trace, once, on copies of the states.
std::vector<ir::Literal> evaluate(const ir::Graph& graph, HostStates& states,
                                  const runtime::InputMap& inputs, const CompileOptions& options,
                                  const Mesh& mesh) {
  if (options.backend != "cpu") {
    return runtime::interpret(graph, inputs, states.map(), mesh.get());
  }
  CpuStates copies;
  const std::unique_ptr<Executable> executable = make_cpu(graph, copies, options, mesh);
  for (const auto& [name, value] : states.map()) copies.write(name, value);
  return executable->run(inputs);
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
  pass_failure.clear();
  if (options.user_passes.empty()) return;
  const auto run = [&](ir::Graph& on) {
    passes::PassContext context;
    compiler::run_passes(on, context, {.verify = options.verify == "fatal"}, options.user_passes);
  };
  if (options.suppress_errors) {
    try {
      run(*graph.clone());
    } catch (const std::exception& error) {
      pass_failure = error.what();
      fmt::print(stderr, "warning: '{}' is compiled without its user_passes: {}\n", options.name,
                 pass_failure);
      return;
    }
  }
  run(graph);
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

// A read while tracing: what this call has read already, or what the graph so far gives.
trace::HostValue Compiled::read(trace::Trace& trace, const trace::HostRead& read,
                                Call& call) const {
  const size_t number = trace.host_reads().size();
  if (number < call.journal.size()) return call.journal[number];
  if (call.inputs == nullptr) {
    throw_user_error("{}\n  at {}:{}\n  while it is traced: call the function with inputs first",
                     read.reason(), read.place.file, read.place.line);
  }
  const std::unique_ptr<ir::Graph> graph = extract(trace.graph(), read.operands);
  HostStates states;
  for (const ir::Node* state : graph->states()) {
    for (const auto& known : trace.states()) {
      if (known.state.name() == state->name()) declare(known.state);
    }
    states.write(state->name(), data_->states->get(state->name()));
  }
  runtime::InputMap inputs;
  for (const ir::Node* input : graph->inputs()) {
    const auto given = call.inputs->find(input->name());
    if (given != call.inputs->end()) inputs[input->name()] = given->second;
  }
  for (size_t i = 0; i < number; ++i) {
    const auto& results = trace.host_reads()[i].results;
    for (size_t k = 0; k < results.size(); ++k) {
      if (graph->find_placeholder(results[k]->name()) == nullptr) continue;
      inputs[results[k]->name()] = call.journal[i].literals[k];
    }
  }
  call.journal.push_back(
      trace::perform(read, evaluate(*graph, states, inputs, data_->options, data_->mesh_now())));
  return call.journal.back();
}

}  // namespace monograph::session
