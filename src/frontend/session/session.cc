#include "frontend/session/session.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "analysis/check_units.h"
#include "analysis/validate_ops.h"
#include "base/error.h"
#include "frontend/session/build_events.h"
#include "frontend/session/cuda_backend.h"
#include "frontend/session/executable.h"
#include "frontend/session/sharding.h"
#include "frontend/session/state_store.h"
#include "frontend/session/statement.h"
#include "frontend/session/variant.h"
#include "ir/verifier.h"

namespace monograph::session {

struct Compiled::Data {
  TracedFunction function;
  CompileOptions options;
  std::shared_ptr<StateStore> states;
  EventLog* events = nullptr;
  std::shared_ptr<const runtime::MeshContext> mesh;
  std::vector<std::unique_ptr<Variant>> variants;  // by signature
  Variant* last = nullptr;
  int64_t num_eager_calls = 0;
};

struct Compiled::Call {
  std::vector<ir::TensorType> types;
  const runtime::InputMap* inputs = nullptr;  // null: nothing is known but the types
  Journal journal = {};
};

namespace {

using Clock = std::chrono::steady_clock;

void report(const std::vector<ir::Violation>& violations, const std::string& mode,
            std::string_view what) {
  if (violations.empty()) return;
  const std::string text = ir::to_text(violations);
  if (mode == "fatal") throw_internal_error("the {} is not valid:\n{}", what, text);
  fmt::print(stderr, "warning: the {} is not valid:\n{}", what, text);
}

void verify(const ir::Graph& graph, const std::string& mode) {
  std::vector<ir::Violation> violations = ir::verify(graph, {.dead_nodes = true});
  for (ir::Violation& each : analysis::validate_ops(graph)) violations.push_back(std::move(each));
  report(violations, mode, "traced graph");
}

void run_user_passes(ir::Graph& graph, const CompileOptions& options) {
  if (options.user_passes.empty()) return;
  passes::PassContext context;
  compiler::run_passes(graph, context, {.verify = options.verify == "fatal"}, options.user_passes);
  graph.renumber();
}

std::vector<ir::TensorType> types_of(const std::vector<ir::Literal>& literals) {
  std::vector<ir::TensorType> types;
  for (const ir::Literal& literal : literals) types.push_back(literal.type());
  return types;
}

int64_t ns_since(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

std::string input_name(const CompileOptions& options, size_t index) {
  return index < options.input_names.size() ? options.input_names[index]
                                            : fmt::format("input{}", index);
}

std::vector<std::string> names_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Graph::Output& output : graph.outputs()) names.push_back(output.name);
  return names;
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

void warn_of_limit(const CompileOptions& options, const std::string& reason) {
  fmt::print(stderr,
             "warning: '{}' was compiled {} times, its recompile_limit; other calls run op by op, "
             "slowly. The last cause: {}\n",
             options.name, options.recompile_limit, reason);
}

}  // namespace

const ir::Literal& Results::operator[](std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return values[i];
  }
  throw_user_error("no output '{}': the function returns {}", name, fmt::join(names, ", "));
}

double Results::scalar(std::string_view name) const {
  const ir::Literal& value = (*this)[name];
  if (value.num_elements() != 1) {
    throw_user_error("output '{}' is {}, no scalar", name, value.type().str());
  }
  return value.get(0);
}

trace::Outputs outputs_of(trace::Tensor loss) {
  return {{"loss", std::move(loss)}};
}
trace::Outputs outputs_of(trace::Outputs outputs) {
  return outputs;
}

std::unique_ptr<Compiled::Variant> Compiled::trace(Call& call) const {
  const auto start = Clock::now();
  const std::shared_ptr<trace::Trace> traced = trace::Trace::create();
  traced->set_precision({.compute = ir::parse_dtype(data_->options.precision)});
  if (data_->mesh != nullptr) {
    trace::Trace::Axes axes;
    for (const std::string& axis : data_->mesh->mesh.batch_axes()) {
      axes.emplace_back(axis, data_->mesh->mesh.size(axis));
    }
    traced->set_batch_axes(std::move(axes));
  }
  if (!data_->options.fullgraph) {
    traced->set_host_reader([&](const trace::HostRead& each) { return read(*traced, each, call); });
  }
  std::vector<trace::Tensor> tensors;
  for (const ir::TensorType& type : call.types) {
    tensors.push_back(traced->input(input_name(data_->options, tensors.size()), type));
  }
  const trace::Outputs outputs = data_->function.call(tensors);
  auto variant = std::make_unique<Variant>();
  variant->graph = shard(*traced, traced->finish(outputs), variant->record.remarks);
  if (data_->mesh != nullptr && data_->options.verify != "off") {
    check_replicas(*traced, *variant->graph, data_->mesh->mesh);
  }
  variant->signature = {call.types, traced->switches()};
  variant->reads = traced->host_reads();
  variant->numbers = call.journal;
  variant->unused_parameters = traced->unused_parameters();
  declare_states(*traced, *variant->graph);
  for (const ir::Node* state : variant->graph->states()) variant->states.push_back(state->name());
  for (const ir::Graph::Update& update : variant->graph->updates()) {
    variant->updated.push_back(update.state->name());
  }
  variant->record.trace_ns = ns_since(start);
  return variant;
}

void Compiled::declare_states(const trace::Trace& trace, const ir::Graph& graph) const {
  const auto group_of = [&](const std::string& axis, int64_t size) {
    if (data_->mesh == nullptr) return std::shared_ptr<comm::Communicator>();
    data_->mesh->along(axis, size);  // refuses another size
    return data_->mesh->communicators.at(axis);
  };
  const std::vector<trace::State> states = states_of(trace);
  for (const trace::State& state : states) {
    const auto& shard = state.tensor_shard();
    if (shard) data_->states->divide(state, group_of(shard->axis, shard->axis_size));
    if (state.flat_unit() == nullptr) declare(state);
  }
  for (const ir::FlatStates& range : trace::flat_states_of(states)) {
    data_->states->declare(range, states, group_of(range.unit->axis, range.unit->axis_size));
  }
  for (const ir::Node* state : graph.states()) {
    if (state->name().starts_with(ir::kCoordinatePrefix)) {
      declare({state->name(), state->types()[0], ir::StateRole::kBuffer,
               trace::Initializer::constant(0)});
    }
  }
}

// What a rank knows of itself enters a graph through its states.
void Compiled::declare(const trace::State& state) const {
  data_->states->declare(state);
  if (data_->mesh == nullptr || !state.name().starts_with(ir::kCoordinatePrefix)) return;
  const std::string axis = state.name().substr(ir::kCoordinatePrefix.size());
  const auto& group = data_->mesh->along(axis, data_->mesh->mesh.size(axis));
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
      trace::perform(read, evaluate(*graph, states, inputs, data_->options, data_->mesh)));
  return call.journal.back();
}

Compiled::Variant& Compiled::build(Call& call) {
  const auto start = Clock::now();
  std::unique_ptr<Variant> variant = trace(call);
  run_user_passes(*variant->graph, data_->options);
  variant->record.num_nodes = variant->graph->num_nodes();
  variant->record.hash = variant->graph->hash();
  variant->record.num_breaks = static_cast<int>(variant->reads.size());
  make_executables(*variant);
  agree_with_ranks(*variant);
  Variant& built = *variant;
  built.frame_key = fmt::format("{}#{}", data_->options.name, data_->variants.size() + 1);
  if (data_->events != nullptr) {
    const std::string& frame_key = built.frame_key;
    if (!data_->variants.empty()) {
      write_recompile(*data_->events, frame_key, data_->variants.size() + 1, reason_to_build(call));
    }
    write_breaks(*data_->events, frame_key, built.reads);
    write_build(*data_->events, frame_key, *built.graph, built.record,
                built.parts.back().executable->build(), data_->options.backend, ns_since(start));
    built.report_fallback(*data_->events);
  }
  data_->variants.push_back(std::move(variant));
  return *(data_->last = &built);
}

void Compiled::agree_with_ranks(const Variant& variant) const {
  const runtime::MeshContext* mesh = data_->mesh.get();
  if (mesh == nullptr || mesh->store == nullptr || !has_collectives(*variant.graph)) return;
  const std::string what = fmt::format("{}#{}", data_->options.name, data_->variants.size() + 1);
  std::vector<const Build*> builds;
  for (const auto& part : variant.parts) builds.push_back(part.executable->build());
  const Statement statement = make_statement(*variant.graph, builds, data_->options, mesh->mesh);
  agree(*mesh->store, mesh->rank, static_cast<int>(mesh->mesh.num_ranks()), what, statement,
        mesh->timeout);
}

std::string Compiled::reason_to_build(const Call& call) const {
  std::vector<const Signature*> known;
  for (const auto& each : data_->variants) {
    known.push_back(&each->signature);
    if (!each->signature.serves(call.types)) continue;
    const size_t at = each->first_difference(call.journal);
    if (at == call.journal.size()) continue;
    return read_reason(each->reads[at], each->numbers[at].number, call.journal[at].number);
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < call.types.size(); ++i) names.push_back(input_name(data_->options, i));
  return recompile_reason(known, call.types, names);
}

// The last segment first: it has the optimizer, which decides how states lie in memory.
void Compiled::make_executables(Variant& variant) const {
  std::vector<Segment> segments;
  if (variant.reads.empty()) {
    segments.push_back({variant.graph->clone(), {}});
  } else {
    segments = cut_at_reads(*variant.graph, variant.reads);
  }
  variant.parts.resize(segments.size());
  const auto start = Clock::now();
  if (data_->options.verify != "off") {
    for (const Segment& segment : segments) verify(*segment.graph, data_->options.verify);
    variant.record.verify_ns = ns_since(start);
  }
  for (size_t i = segments.size(); i-- > 0;) {
    variant.parts[i].segment = std::move(segments[i]);
    const ir::Graph& graph = *variant.parts[i].segment.graph;
    variant.parts[i].executable = make_executable(graph, variant.storage);
    const Build* build = variant.parts[i].executable->build();
    if (build == nullptr || data_->options.verify == "off") continue;
    report(analysis::check_units(graph, *build->compilation.graph), data_->options.verify,
           "compiled step");
  }
}

std::unique_ptr<Executable> Compiled::make_executable(const ir::Graph& graph,
                                                      StateStorage*& storage) const {
  const CompileOptions& options = data_->options;
  storage = &data_->states->host();
  if (options.backend == "cpu") {
    storage = &data_->states->cpu();
    return make_cpu(graph, data_->states->cpu(), options, data_->mesh);
  }
  if (options.backend == "cuda") {
    const bool is_one_of_many = data_->mesh != nullptr && data_->mesh->world != nullptr;
    storage = &data_->states->cuda(is_one_of_many ? data_->mesh->world->local_rank : 0);
    return make_cuda(graph, *storage, options, data_->mesh);
  }
  if (options.backend == "null") return make_null(graph, options);
  return make_interpreted(graph, data_->states->host(), data_->mesh);
}

// The variant that serves this call as far as it is known; the one used last is tried first.
Compiled::Variant* Compiled::find(const Call& call) const {
  if (static_cast<int>(call.types.size()) != data_->function.arity) {
    throw_user_error("the compiled function takes {} tensors, {} were given", data_->function.arity,
                     call.types.size());
  }
  const auto serves = [&](const Variant& known) {
    return known.signature.serves(call.types) && known.follows(call.journal);
  };
  if (data_->last != nullptr && serves(*data_->last)) return data_->last;
  for (const auto& known : data_->variants) {
    if (serves(*known)) return known.get();
  }
  return nullptr;
}

Compiled::Variant& Compiled::variant(const std::vector<ir::TensorType>& inputs) {
  Call call{inputs};
  Variant* known = find(call);
  return known != nullptr ? *(data_->last = known) : build(call);
}

Results Compiled::operator()(const std::vector<ir::Literal>& inputs) {
  return start(inputs)();
}

std::function<Results()> Compiled::start(const std::vector<ir::Literal>& inputs) {
  runtime::InputMap named;
  for (size_t i = 0; i < inputs.size(); ++i) named[input_name(data_->options, i)] = inputs[i];
  Call call{types_of(inputs), &named};
  while (true) {
    Variant* chosen = find(call);
    if (chosen == nullptr) {
      if (num_signatures() >= data_->options.recompile_limit) {
        return [results = run_eagerly(call)] { return results; };
      }
      chosen = &build(call);
    }
    data_->last = chosen;
    data_->states->bring(chosen->states, *chosen->storage);
    if (chosen->parts.size() == 1) {
      Executable::Outputs outputs = chosen->parts[0].executable->start(named);
      data_->states->changed(chosen->updated, *chosen->storage);
      if (data_->events != nullptr) chosen->report_fallback(*data_->events);
      return [names = names_of(*chosen->graph), outputs = std::move(outputs)] {
        return Results{names, outputs()};
      };
    }
    std::optional<std::vector<ir::Literal>> values = chosen->run(named, call.journal);
    if (!values) continue;  // another path: its number is in the journal now
    data_->states->changed(chosen->updated, *chosen->storage);
    if (data_->events != nullptr) chosen->report_fallback(*data_->events);
    return [results = Results{names_of(*chosen->graph), std::move(*values)}] { return results; };
  }
}

// Traces and interprets: slow, and right for every call.
Results Compiled::run_eagerly(Call& call) {
  const std::string reason = reason_to_build(call);
  const std::unique_ptr<Variant> traced = trace(call);
  if (data_->num_eager_calls++ == 0) {
    warn_of_limit(data_->options, reason);
    if (data_->events != nullptr) {
      write_recompile_limit(*data_->events, data_->options.name, data_->variants.size(), reason);
    }
  }
  runtime::InputMap inputs = *call.inputs;
  for (size_t i = 0; i < traced->reads.size(); ++i) {
    for (size_t k = 0; k < traced->reads[i].results.size(); ++k) {
      inputs[traced->reads[i].results[k]->name()] = call.journal[i].literals[k];
    }
  }
  HostStates& host = data_->states->host();
  data_->states->bring(traced->states, host);
  Results results{names_of(*traced->graph),
                  make_interpreted(*traced->graph, host, data_->mesh)->run(inputs)};
  data_->states->changed(traced->updated, host);
  return results;
}

Executable& Compiled::executable(const std::vector<ir::TensorType>& inputs) {
  return *variant(inputs).parts.back().executable;
}

const ir::Graph& Compiled::graph(const std::vector<ir::TensorType>& inputs) {
  return *variant(inputs).graph;
}

const TraceRecord& Compiled::trace_record(const std::vector<ir::TensorType>& inputs) {
  return variant(inputs).record;
}

const std::vector<std::string>& Compiled::unused_parameters() const {
  if (data_->last == nullptr) throw_user_error("the function was not traced yet: call it first");
  return data_->last->unused_parameters;
}

int Compiled::num_signatures() const {
  return static_cast<int>(data_->variants.size());
}

const std::vector<trace::HostRead>& Compiled::breaks() const {
  if (data_->last == nullptr) throw_user_error("the function was not traced yet: call it first");
  return data_->last->reads;
}

int64_t Compiled::num_eager_calls() const {
  return data_->num_eager_calls;
}

Session Compiled::session() const {
  return Session(data_->states, data_->options, data_->events, data_->mesh);
}

Session::Session(SessionConfig config)
    : states_(std::make_shared<StateStore>(config.seed)),
      options_(std::move(config.options)),
      events_(config.events),
      mesh_(std::move(config.mesh)) {
  check_options(options_);
}

Compiled Session::compile_traced(TracedFunction function, CompileOptions options) {
  check_options(options);
  auto data = std::make_shared<Compiled::Data>();
  data->function = std::move(function);
  data->options = std::move(options);
  data->states = states_;
  data->events = events_;
  data->mesh = mesh_;
  return Compiled(std::move(data));
}

ir::Literal Session::state(const std::string& name) const {
  return states_->get(name);
}

ir::TensorType Session::state_type(const std::string& name) const {
  return states_->type(name);
}

void Session::set_state(const std::string& name, const ir::Literal& value) {
  states_->set(name, value);
}

std::vector<std::string> Session::state_names() const {
  return states_->names();
}

}  // namespace monograph::session
