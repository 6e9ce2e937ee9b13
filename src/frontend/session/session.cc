#include "frontend/session/session.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>

#include "analysis/validate_ops.h"
#include "base/error.h"
#include "frontend/session/build_events.h"
#include "frontend/session/executable.h"
#include "frontend/session/signature.h"
#include "frontend/session/state_store.h"
#include "ir/verifier.h"

namespace monograph::session {

struct Compiled::Variant {
  Signature signature;
  std::unique_ptr<ir::Graph> graph;
  TraceRecord record;
  std::vector<std::string> unused_parameters;
  std::vector<std::string> states, updated;  // read; changed by a run
  StateStorage* storage = nullptr;
  std::unique_ptr<Executable> executable;
};

struct Compiled::Data {
  TracedFunction function;
  CompileOptions options;
  std::shared_ptr<StateStore> states;
  EventLog* events = nullptr;
  std::vector<std::unique_ptr<Variant>> variants;  // by signature
  Variant* last = nullptr;
};

namespace {

using Clock = std::chrono::steady_clock;

void verify(const ir::Graph& graph, const std::string& mode) {
  std::vector<ir::Violation> violations = ir::verify(graph, {.dead_nodes = true});
  for (ir::Violation& each : analysis::validate_ops(graph)) violations.push_back(std::move(each));
  if (violations.empty()) return;
  const std::string text = ir::to_text(violations);
  if (mode == "fatal") throw_internal_error("the traced graph is not valid:\n{}", text);
  fmt::print(stderr, "warning: the traced graph is not valid:\n{}", text);
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

std::unique_ptr<Compiled::Variant> Compiled::trace(
    const std::vector<ir::TensorType>& inputs) const {
  const std::shared_ptr<trace::Trace> traced = trace::Trace::create();
  traced->set_precision({.compute = ir::parse_dtype(data_->options.precision)});
  std::vector<trace::Tensor> tensors;
  for (const ir::TensorType& type : inputs) {
    tensors.push_back(traced->input(input_name(data_->options, tensors.size()), type));
  }
  const trace::Outputs outputs = data_->function.call(tensors);
  auto variant = std::make_unique<Variant>();
  variant->graph = traced->finish(outputs);
  variant->signature = {inputs, traced->switches()};
  variant->unused_parameters = traced->unused_parameters();
  for (const auto& known : traced->states()) {
    data_->states->declare(known.state);
    variant->states.push_back(known.state.name());
  }
  for (const ir::Graph::Update& update : variant->graph->updates()) {
    variant->updated.push_back(update.state->name());
  }
  return variant;
}

std::unique_ptr<Compiled::Variant> Compiled::build(
    const std::vector<ir::TensorType>& inputs) const {
  const auto start = Clock::now();
  std::unique_ptr<Variant> variant = trace(inputs);
  variant->record.trace_ns = ns_since(start);
  const auto traced = Clock::now();
  if (data_->options.verify != "off") {
    verify(*variant->graph, data_->options.verify);
    variant->record.verify_ns = ns_since(traced);
  }
  run_user_passes(*variant->graph, data_->options);
  variant->record.num_nodes = variant->graph->num_nodes();
  variant->record.hash = variant->graph->hash();
  make_executable(*variant);
  if (data_->events == nullptr) return variant;
  const std::string frame_key =
      fmt::format("{}#{}", data_->options.name, data_->variants.size() + 1);
  if (!data_->variants.empty()) {
    write_recompile(*data_->events, frame_key, data_->variants.size() + 1, reason_to_build(inputs));
  }
  write_build(*data_->events, frame_key, *variant->graph, variant->record,
              variant->executable->build(), data_->options.backend, ns_since(start));
  return variant;
}

std::string Compiled::reason_to_build(const std::vector<ir::TensorType>& inputs) const {
  std::vector<const Signature*> known;
  for (const auto& each : data_->variants) known.push_back(&each->signature);
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) names.push_back(input_name(data_->options, i));
  return recompile_reason(known, inputs, names);
}

void Compiled::make_executable(Variant& variant) const {
  const CompileOptions& options = data_->options;
  variant.storage = &data_->states->host();
  if (options.backend == "cpu") {
    variant.storage = &data_->states->cpu();
    variant.executable = make_cpu(*variant.graph, data_->states->cpu(), options);
  } else if (options.backend == "null") {
    variant.executable = make_null(*variant.graph, options);
  } else {
    variant.executable = make_interpreted(*variant.graph, data_->states->host());
  }
}

Compiled::Variant& Compiled::variant(const std::vector<ir::TensorType>& inputs) {
  if (static_cast<int>(inputs.size()) != data_->function.arity) {
    throw_user_error("the compiled function takes {} tensors, {} were given", data_->function.arity,
                     inputs.size());
  }
  for (const auto& known : data_->variants) {
    if (known->signature.serves(inputs)) return *(data_->last = known.get());
  }
  data_->variants.push_back(build(inputs));
  return *(data_->last = data_->variants.back().get());
}

Results Compiled::operator()(const std::vector<ir::Literal>& inputs) {
  Variant& chosen = variant(types_of(inputs));
  runtime::InputMap named;
  for (size_t i = 0; i < inputs.size(); ++i) named[input_name(data_->options, i)] = inputs[i];
  data_->states->bring(chosen.states, *chosen.storage);
  Results results;
  results.values = chosen.executable->run(named);
  data_->states->changed(chosen.updated, *chosen.storage);
  for (const ir::Graph::Output& output : chosen.graph->outputs()) {
    results.names.push_back(output.name);
  }
  return results;
}

Executable& Compiled::executable(const std::vector<ir::TensorType>& inputs) {
  return *variant(inputs).executable;
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

Session Compiled::session() const {
  return Session(data_->states, data_->options, data_->events);
}

Session::Session(SessionConfig config)
    : states_(std::make_shared<StateStore>(config.seed)),
      options_(std::move(config.options)),
      events_(config.events) {
  check_options(options_);
}

Compiled Session::compile_traced(TracedFunction function, CompileOptions options) {
  check_options(options);
  auto data = std::make_shared<Compiled::Data>();
  data->function = std::move(function);
  data->options = std::move(options);
  data->states = states_;
  data->events = events_;
  return Compiled(std::move(data));
}

ir::Literal Session::state(const std::string& name) const {
  return states_->get(name);
}

void Session::set_state(const std::string& name, const ir::Literal& value) {
  states_->set(name, value);
}

std::vector<std::string> Session::state_names() const {
  return states_->names();
}

}  // namespace monograph::session
