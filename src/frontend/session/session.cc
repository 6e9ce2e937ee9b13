#include "frontend/session/session.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "analysis/check_units.h"
#include "analysis/validate_ops.h"
#include "base/error.h"
#include "frontend/session/build_events.h"
#include "frontend/session/compiled_data.h"
#include "frontend/session/cuda_backend.h"
#include "frontend/session/executable.h"
#include "frontend/session/state_store.h"
#include "frontend/session/statement.h"
#include "frontend/session/tensor_view.h"
#include "frontend/session/variant.h"
#include "ir/verifier.h"

namespace monograph::session {

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

int64_t ns_since(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

std::vector<std::string> names_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Graph::Output& output : graph.outputs()) names.push_back(output.name);
  return names;
}

// The ranks of a stage run one step, and its exchanges meet those of the others. All ranks stop
// when those of one stage differ.
void agree_in_stages(const runtime::MeshContext& mesh, const std::string& what,
                     const Statement& statement, const std::vector<analysis::StageCall>& calls) {
  constexpr std::string_view kFailed = "failed ";
  const int64_t stage = mesh.mesh.stage(mesh.rank);
  std::string word = analysis::to_lines(calls);
  try {
    agree(*mesh.store, mesh.rank, mesh.mesh.ranks_of_stage(stage),
          fmt::format("{} of stage {}", what, stage), statement, mesh.timeout);
  } catch (const UserError& error) {
    word = fmt::format("{}{}", kFailed, error.what());
  }
  std::vector<int> speakers;
  for (int64_t each = 0; each < mesh.mesh.size(ir::kPipelineAxis); ++each) {
    speakers.push_back(mesh.mesh.ranks_of_stage(each).front());
  }
  std::vector<std::vector<analysis::StageCall>> of_stages;
  for (const std::string& said :
       hear_all(*mesh.store, mesh.rank, speakers, what + " of stages", word, mesh.timeout)) {
    if (said.starts_with(kFailed)) throw_user_error("{}", said.substr(kFailed.size()));
    of_stages.push_back(analysis::parse_stage_calls(said));
  }
  if (const auto violation = analysis::check_stages(of_stages)) {
    throw_user_error("{}: {}", what, *violation);
  }
}

void warn_of_limit(const CompileOptions& options, const std::string& reason) {
  fmt::print(stderr,
             "warning: '{}' was compiled {} times, its recompile_limit; other calls run without "
             "compiled kernels, slower. The last cause: {}\n",
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

// `traced`: the call's trace, after the user's passes; null: it is made here.
Compiled::Variant& Compiled::build(Call& call, std::unique_ptr<Variant> traced) {
  const auto start = Clock::now();
  std::unique_ptr<Variant> variant = std::move(traced);
  if (variant == nullptr) variant = data_->build_dynamic(*this, call);
  const bool is_dynamic = variant != nullptr && variant->dynamic != nullptr;
  if (variant == nullptr) {
    variant = trace(call);
    data_->run_user_passes(*variant->graph);
  }
  variant->record.num_nodes = variant->graph->num_nodes();
  variant->record.hash = variant->graph->hash();
  variant->record.num_breaks = static_cast<int>(variant->reads.size());
  if (!is_dynamic) {
    make_executables(*variant);
  } else if (data_->options.verify != "off") {
    verify(*variant->graph, data_->options.verify);
  }
  data_->has_exchanges = data_->has_exchanges || has_collectives(*variant->graph);
  agree_with_ranks(*variant);
  Variant& built = *variant;
  built.frame_key = fmt::format("{}#{}", data_->options.name, data_->variants.size() + 1);
  if (!data_->variants.empty()) data_->misses = misses_of(call, *built.graph);
  if (data_->events != nullptr) {
    const std::string& frame_key = built.frame_key;
    if (!data_->variants.empty()) {
      write_recompile(*data_->events, frame_key, data_->variants.size() + 1, data_->misses);
    }
    write_breaks(*data_->events, frame_key, built.reads);
    write_build(*data_->events, frame_key, *built.graph, built.record,
                built.parts.back().executable->build(), data_->options.backend, ns_since(start));
    if (!data_->pass_fallback.cause.empty()) {
      write_fallback(*data_->events, frame_key, built.record.hash, data_->pass_fallback);
    }
    built.report_fallback(*data_->events);
  }
  data_->variants.push_back(std::move(variant));
  return *(data_->last = &built);
}

void Compiled::agree_with_ranks(const Variant& variant) const {
  const runtime::MeshContext* mesh = data_->mesh_now().get();
  if (mesh == nullptr || mesh->store == nullptr) return;
  if (!mesh->mesh.has_stages() && !has_collectives(*variant.graph)) return;
  const std::string what = fmt::format("{}#{}", data_->options.name, data_->variants.size() + 1);
  std::vector<const Build*> builds;
  for (const auto& part : variant.parts) builds.push_back(part.executable->build());
  const Statement statement = make_statement(*variant.graph, builds, data_->options, mesh->mesh);
  const auto num_ranks = static_cast<int>(mesh->mesh.num_ranks());
  const bool has_stages = mesh->mesh.has_stages();
  try {
    agree(*mesh->store, mesh->rank, num_ranks, what,
          has_stages ? part_of_all_stages(statement) : statement, mesh->timeout);
  } catch (const CommError& error) {
    const auto read = std::find_if(variant.reads.rbegin(), variant.reads.rend(),
                                   [](const trace::HostRead& each) { return each.is_number(); });
    if (read == variant.reads.rend()) throw;
    const size_t at = variant.reads.size() - 1 - (read - variant.reads.rbegin());
    throw CommError(fmt::format("{}\n  {}: {} here, at {}:{}; ranks that read another number take "
                                "another path, perhaps one without exchanges",
                                error.what(), read->reason(), variant.numbers[at].number,
                                read->place.file, read->place.line),
                    error.place());
  }
  if (has_stages) {
    agree_in_stages(*mesh, what, statement, stage_calls(*variant.graph, builds));
  }
}

std::vector<GuardMiss> Compiled::misses_of(const Call& call, const ir::Graph& traced) const {
  std::vector<const Guards*> known;
  for (const auto& each : data_->variants) {
    known.push_back(&each->guards);
    if (!each->guards.hold(call.facts)) continue;
    const size_t at = each->first_difference(call.journal);
    if (at == call.journal.size()) continue;
    return {read_miss(each->reads[at], each->numbers[at].number, call.journal[at].number,
                      number_use(*each->graph, traced))};
  }
  return nearest_misses(known, call.facts, input_names(call.facts.inputs.size()));
}

std::vector<std::string> Compiled::input_names(size_t count) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(data_->input_name(i));
  return names;
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
  for (size_t i = 0; i < segments.size(); ++i) variant.parts[i].segment = std::move(segments[i]);
  for (size_t i = segments.size(); i-- > 0;) {
    const ir::Graph& graph = *variant.parts[i].segment.graph;
    variant.parts[i].executable = make_executable(graph, variant.storage);
    if (variant.parts[i].executable == nullptr) return interpret(variant);
    const Build* build = variant.parts[i].executable->build();
    if (build == nullptr || data_->options.verify == "off") continue;
    report(analysis::check_units(graph, *build->compilation.graph), data_->options.verify,
           "compiled step");
  }
}

// Op by op: where no Program could be made, and the options say that the run goes on.
void Compiled::interpret(Variant& variant) const {
  HostStates& states = data_->states->host();
  for (Variant::Part& part : variant.parts) {
    part.executable = make_interpreted(*part.segment.graph, states, data_->mesh_now());
  }
  variant.storage = &states;
}

std::unique_ptr<Executable> Compiled::make_executable(const ir::Graph& graph,
                                                      StateStorage*& storage) const {
  const CompileOptions& options = data_->options;
  storage = &data_->states->host();
  if (options.backend == "cpu") {
    storage = &data_->states->cpu();
    return make_cpu(graph, data_->states->cpu(), options, data_->mesh_now(), data_->pass_fallback);
  }
  if (options.backend == "cuda") {
    const Mesh& mesh = data_->mesh_now();
    const bool is_one_of_many = mesh != nullptr && mesh->world != nullptr;
    storage = &data_->states->cuda(is_one_of_many ? mesh->world->local_rank : 0);
    return make_cuda(graph, *storage, options, mesh);
  }
  if (options.backend == "null") return make_null(graph, options);
  return make_interpreted(graph, data_->states->host(), data_->mesh_now());
}

// The variant that serves this call as far as it is known; the one used last is tried first.
Compiled::Variant* Compiled::find(const Call& call) const {
  if (static_cast<int>(call.facts.inputs.size()) != data_->function.arity) {
    throw_user_error("the compiled function takes {} tensors, {} were given", data_->function.arity,
                     call.facts.inputs.size());
  }
  if (data_->last != nullptr && data_->last->serves(call)) return data_->last;
  for (const auto& known : data_->variants) {
    if (known->serves(call)) return known.get();
  }
  return nullptr;
}

Compiled::Variant& Compiled::variant(const std::vector<ir::TensorType>& inputs) {
  Call call{{{}, mesh_of_call()}};
  for (const ir::TensorType& type : inputs) call.facts.inputs.push_back({&type});
  Variant* known = find(call);
  return known != nullptr ? *(data_->last = known) : build(call);
}

Results Compiled::operator()(const std::vector<ir::Literal>& inputs) {
  return start(inputs)();
}

const ir::Mesh* Compiled::mesh_of_call() const {
  return data_->mesh_now() == nullptr ? nullptr : &data_->mesh_now()->mesh;
}

std::function<Results()> Compiled::start(const std::vector<ir::Literal>& inputs) {
  runtime::InputMap named;
  Call call{{{}, mesh_of_call()}, &named};
  for (size_t i = 0; i < inputs.size(); ++i) {
    named[data_->input_name(i)] = inputs[i];
    call.facts.inputs.push_back({&inputs[i].type()});
  }
  return start(call);
}

Results Compiled::run_on(std::span<const TensorView> views) {
  runtime::InputMap named;
  Call call{{{}, mesh_of_call()}, &named};
  for (const TensorView& view : views) {
    const std::string name = data_->input_name(call.facts.inputs.size());
    InputCopy copy = copy_input(view, name);
    const ir::Literal& kept = named[name] = std::move(copy.literal);
    call.facts.inputs.push_back({&kept.type(), std::move(copy.order)});
  }
  return start(call)();
}

std::function<Results()> Compiled::start(Call& call) {
  const runtime::InputMap& named = *call.inputs;
  while (true) {
    Variant* chosen = find(call);
    std::unique_ptr<Variant> traced;
    if (chosen == nullptr) chosen = find_traced(call, traced);
    if (chosen == nullptr && is_past_limit()) {
      return [results = run_eagerly(call, std::move(traced))] { return results; };
    }
    if (chosen == nullptr) chosen = &build(call, std::move(traced));
    data_->last = chosen;
    if (chosen->dynamic != nullptr && !data_->set_sizes(*this, *chosen, call)) continue;
    data_->states->bring(chosen->states, *chosen->storage);
    if (chosen->parts.size() == 1) {
      Executable::Outputs outputs = chosen->parts[0].executable->start(named);
      data_->states->changed(chosen->updated, *chosen->storage);
      if (data_->events != nullptr) chosen->report_fallback(*data_->events);
      return [names = names_of(*chosen->graph), outputs = std::move(outputs)] {
        return Results{names, outputs()};
      };
    }
    std::optional<std::vector<ir::Literal>> values = chosen->run(
        named, call.journal,
        [this](const trace::HostRead& read, double number) { check_ranks_read(read, number); });
    if (!values) continue;  // another path: its number is in the journal now
    data_->states->changed(chosen->updated, *chosen->storage);
    if (data_->events != nullptr) chosen->report_fallback(*data_->events);
    return [results = Results{names_of(*chosen->graph), std::move(*values)}] { return results; };
  }
}

bool Compiled::is_past_limit() const {
  return num_signatures() >= data_->options.recompile_limit;
}

// Without compiling kernels: slower, and right for every call. `traced`: null, or the call's trace.
Results Compiled::run_eagerly(Call& call, std::unique_ptr<Variant> traced) {
  if (traced == nullptr) {
    traced = trace(call);
    data_->run_user_passes(*traced->graph);
  }
  if (data_->num_eager_calls++ == 0) {
    const std::string reason = to_text(misses_of(call, *traced->graph));
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
  const ir::Graph& graph = *traced->graph;
  const Mesh& mesh = data_->mesh_now();
  std::unique_ptr<Executable> executable;
  StateStorage* storage = &data_->states->cpu();
  if (data_->options.backend == "cpu") {
    executable = make_uncompiled_cpu(graph, data_->states->cpu(), data_->options, mesh,
                                     data_->pass_fallback);
  }
  if (executable == nullptr) {
    executable = make_interpreted(graph, data_->states->host(), mesh);
    storage = &data_->states->host();
  }
  data_->states->bring(traced->states, *storage);
  Results results{names_of(graph), executable->run(inputs)};
  data_->states->changed(traced->updated, *storage);
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

std::vector<std::pair<std::string, std::string>> Compiled::guards(
    const std::vector<ir::TensorType>& inputs) {
  return variant(inputs).guards.describe(input_names(inputs.size()));
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

const std::vector<GuardMiss>& Compiled::guard_misses() const {
  return data_->misses;
}

const std::vector<std::string>& Compiled::specializations() const {
  return data_->specializations;
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
      mesh_(std::make_shared<SessionMesh>(std::move(config.mesh))) {
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

void Session::set_mesh(std::shared_ptr<const runtime::MeshContext> mesh) {
  mesh_->context = std::move(mesh);
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

std::string Session::state_device(const std::string& name) const {
  return states_->device(name);
}

std::vector<std::string> Session::state_names() const {
  return states_->names();
}

}  // namespace monograph::session
