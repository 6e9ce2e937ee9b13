#include <algorithm>

#include "base/error.h"
#include "frontend/session/agreement.h"
#include "frontend/session/compiled_data.h"
#include "frontend/session/executable.h"
#include "ir/graph_table.h"

// What a function reads on the host decides its path: reading while it is traced, numbers that lead
// to a path that is known, and ranks that must take one path.
namespace monograph::session {
namespace {

// A part of a trace, once, on copies of the states.
std::vector<ir::Literal> evaluate(const ir::Graph& graph, HostStates& states,
                                  const runtime::InputMap& inputs, const CompileOptions& options,
                                  const Mesh& mesh, bool compiles) {
  if (options.backend != "cpu") {
    return runtime::interpret(graph, inputs, states.map(), mesh.get());
  }
  CpuStates copies;
  Fallback fallback;
  const auto executable = compiles ? make_cpu(graph, copies, options, mesh, fallback)
                                   : make_uncompiled_cpu(graph, copies, options, mesh, fallback);
  if (executable == nullptr) return runtime::interpret(graph, inputs, states.map(), mesh.get());
  for (const auto& [name, value] : states.map()) copies.write(name, value);
  return executable->run(inputs);
}

// Of equal graphs, or of equal beginnings.
bool same_operands(const std::vector<ir::Value>& a, const std::vector<ir::Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](ir::Value x, ir::Value y) {
    return x.node->id() == y.node->id() && x.index == y.index;
  });
}

bool same_reads(const std::vector<trace::HostRead>& a, const std::vector<trace::HostRead>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.kind == y.kind && x.results.size() == y.results.size() &&
           same_operands(x.operands, y.operands);
  });
}

}  // namespace

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
  const std::vector<ir::Literal> operands =
      evaluate(*graph, states, inputs, data_->options, data_->mesh_now(), !is_past_limit());
  call.journal.push_back(trace::perform(read, operands));
  check_ranks_read(read, call.journal.back().number);
  return call.journal.back();
}

// A number that only decided a branch is in no node: with another number on the same side, the
// trace is one that was compiled. `traced`: what was traced to see that, for those who build.
Compiled::Variant* Compiled::find_traced(Call& call, std::unique_ptr<Variant>& traced) const {
  const auto& variants = data_->variants;
  const bool has_read_another =
      std::any_of(variants.begin(), variants.end(), [&](const auto& known) {
        return known->first_difference(call.journal) < call.journal.size() &&
               known->guards.hold(call.facts);
      });
  if (!has_read_another) return nullptr;
  traced = trace(call);
  data_->run_user_passes(*traced->graph);
  for (const auto& known : variants) {
    if (!known->guards.hold(call.facts) || !same_reads(known->reads, traced->reads)) continue;
    if (!ir::same_graph(*known->graph, *traced->graph)) continue;
    known->numbers = std::move(traced->numbers);
    for (size_t i = 0; i < known->reads.size(); ++i) {
      known->reads[i].function = std::move(traced->reads[i].function);
    }
    return known.get();
  }
  return nullptr;
}

// Ranks whose function exchanges values would wait for each other on different paths.
void Compiled::check_ranks_read(const trace::HostRead& read, double number) const {
  const runtime::MeshContext* mesh = data_->mesh_now().get();
  if (!read.is_number() || !data_->has_exchanges) return;
  if (mesh == nullptr || mesh->store == nullptr) return;
  const std::vector<Word> words = distinct_words(
      *mesh->store, mesh->rank, static_cast<int>(mesh->mesh.num_ranks()),
      "numbers read by " + data_->options.name, fmt::format("{}", number), mesh->timeout);
  if (words.size() == 1) return;
  std::string numbers;
  for (const Word& word : words) {
    numbers += fmt::format("{}{} on {}", numbers.empty() ? "" : ", ", word.text, word.ranks);
  }
  throw_user_error(
      "{}, and ranks read different numbers: {}\n  at {}:{}\n  ranks that exchange values must "
      "take one path: reduce it over the ranks before it is read, as all_mean(x, mesh, axis)",
      read.reason(), numbers, read.place.file, read.place.line);
}

// How the number of a read enters the graph: two traces with different ones are compared.
std::optional<NumberUse> number_use(const ir::Graph& before, const ir::Graph& now) {
  std::optional<NumberUse> number;
  const int common = std::min(before.num_nodes(), now.num_nodes());
  for (int i = 0; i < common; ++i) {
    const ir::Node &a = *before.nodes()[i], &b = *now.nodes()[i];
    const NumberUse branch{false, b.provenance()};
    if (a.op() != b.op() || a.types() != b.types() || a.num_operands() != b.num_operands()) {
      return branch;
    }
    for (int k = 0; k < a.num_operands(); ++k) {
      const bool is_same = a.operand(k).node->id() == b.operand(k).node->id() &&
                           a.operand(k).index == b.operand(k).index;
      if (!is_same) return branch;
    }
    if (a.attributes() != b.attributes() && !number) number = NumberUse{true, b.provenance()};
  }
  if (before.num_nodes() == now.num_nodes()) return number;
  const ir::Graph& longer = before.num_nodes() > common ? before : now;
  return NumberUse{false, longer.nodes()[common]->provenance()};
}

}  // namespace monograph::session
