#include "verify/bisect.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "compiler/build_program.h"
#include "ir/printer.h"
#include "passes/memory/layout.h"
#include "runtime/interpreter.h"
#include "verify/explain/step_nodes.h"

namespace monograph::verify {
namespace {

using compiler::LineageNode;
using compiler::LineageStep;

// A whole step adds up the rounding of its nodes.
double step_tolerance(ir::DType dtype) {
  return dtype == ir::DType::kBF16 || dtype == ir::DType::kF16 ? 5e-2 : 10 * tolerance_of(dtype);
}

// What the outside sees of a step: outputs and states, by name.
using Outcome = std::map<std::string, ir::Literal>;

Outcome interpret(const ir::Graph& graph, const Suspect& suspect) {
  runtime::StateMap states = suspect.states;
  const auto outputs = runtime::interpret(graph, suspect.inputs, states);
  Outcome outcome = states;
  for (size_t i = 0; i < outputs.size(); ++i) outcome[graph.outputs()[i].name] = outputs[i];
  return outcome;
}

// The first and worst difference in words; empty: none.
std::string difference(const Outcome& found, const Outcome& expected) {
  std::string worst;
  double most = 0;
  for (const auto& [name, value] : expected) {
    const double error = relative_error(found.at(name), value);
    const double tolerance = step_tolerance(value.type().dtype);
    if (error <= tolerance || error - tolerance <= most) continue;
    most = error - tolerance;
    worst = fmt::format("{} is {:.2g} off what the interpreter gives, allowed is {:.0e}", name,
                        error, tolerance);
  }
  return worst;
}

int num_optional(std::span<const compiler::PipelineStep> steps) {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [](const auto& s) { return !s.is_required; }));
}

// The values of the top-level nodes of a graph, in order; placeholders have none.
std::vector<std::vector<ir::Literal>> values_of(const ir::Graph& graph, const Suspect& suspect) {
  std::vector<ir::Value> seen;
  const auto open = with_all_in_sight(graph, seen);
  runtime::StateMap states = suspect.states;
  std::vector<ir::Literal> outputs = runtime::interpret(*open, suspect.inputs, states);
  std::vector<std::vector<ir::Literal>> values;
  size_t next = 0;
  for (const auto& node : graph.nodes()) {
    values.emplace_back();
    for (int i = 0; i < node->num_results() && is_step(*node); ++i) {
      values.back().push_back(std::move(outputs[next++]));
    }
  }
  return values;
}

std::vector<int> top_level(const LineageStep& step) {
  std::vector<int> numbers;
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    if (step.nodes[i].inside < 0) numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

class Search {
 public:
  Search(const Suspect& suspect, const KernelMaker& make_kernels)
      : suspect_(suspect), make_kernels_(make_kernels) {}

  Bisection run() {
    expected_ = count(interpret(*suspect_.traced, suspect_));
    const int all = num_optional(suspect_.steps);
    auto final_graph = after(all);
    result_.symptom = difference(count(interpret(*final_graph, suspect_)), expected_);
    if (!result_.symptom.empty()) {
      result_.fault = Bisection::Fault::kPass;
      find_pass(all, [&](const ir::Graph& graph) { return count(interpret(graph, suspect_)); });
      find_node_of_pass();
      return result_;
    }
    if (find_kernel(*final_graph)) return result_;
    result_.symptom = difference(count(execute(*final_graph)), expected_);
    if (result_.symptom.empty()) return result_;
    result_.fault = Bisection::Fault::kPlan;
    find_pass(all, [&](const ir::Graph& graph) { return count(execute(graph)); });
    return result_;
  }

 private:
  Outcome count(Outcome outcome) {
    ++result_.num_runs;
    return outcome;
  }

  std::unique_ptr<ir::Graph> after(int num_passes, compiler::LineageRecorder* lineage = nullptr,
                                   std::vector<compiler::PassRecord>* records = nullptr) const {
    auto graph = suspect_.traced->clone();
    compiler::PassOptions options = suspect_.options;
    options.stop_after = num_passes;
    passes::PassContext context;
    auto ran = compiler::run_passes(*graph, context, options, suspect_.steps, lineage);
    if (records != nullptr) *records = std::move(ran);
    return graph;
  }

  // The least number of passes after which the step is wrong, by halving: it is right after
  // `right`, wrong after `wrong`. With none at all it may be wrong, too: a required pass, then.
  template <typename Run>
  void find_pass(int wrong, const Run& run) {
    int right = -1;
    while (wrong - right > 1) {
      const int middle = right + (wrong - right) / 2;
      const bool is_wrong = !difference(run(*after(middle)), expected_).empty();
      (is_wrong ? wrong : right) = middle;
    }
    num_passes_ = wrong;
    std::vector<compiler::PassRecord> records;
    after(wrong, nullptr, &records);
    if (wrong == 0) return;  // named by find_node_of_pass, among those that are always run
    int seen = 0;
    for (const compiler::PassRecord& record : records) {
      if (suspect_.steps[record.application].is_required || ++seen != wrong) continue;
      result_.pass = record.name;
      result_.application = record.application;
    }
  }

  // The graphs around the wrong pass, node by node: the last that a node became must have its
  // value.
  void find_node_of_pass() {
    compiler::LineageRecorder recorder(*suspect_.traced);
    const auto graph = after(num_passes_, &recorder);
    const std::vector<LineageStep> lineage = recorder.take();
    for (size_t i = 1; i < lineage.size(); ++i) {
      if (!result_.pass.empty() && lineage[i].pass != result_.pass) continue;
      if (compare_around(lineage, i)) {
        result_.pass = lineage[i].pass;
        return;
      }
    }
  }

  // The graph as it was after the i-th change, run again up to there.
  std::unique_ptr<ir::Graph> graph_at(size_t change) const {
    auto graph = suspect_.traced->clone();
    passes::PassContext context;
    size_t seen = 0;
    int num_optional_run = 0;
    for (const compiler::PipelineStep& step : suspect_.steps) {
      if (seen == change) break;
      const auto& disabled = suspect_.options.disabled;
      const bool is_off = std::find(disabled.begin(), disabled.end(), step.name) != disabled.end();
      if (!step.is_required && (is_off || num_optional_run >= num_passes_)) continue;
      num_optional_run += !step.is_required;
      context.set_pass(step.name);
      seen += step.run(*graph, context);
    }
    return graph;
  }

  bool compare_around(const std::vector<LineageStep>& lineage, size_t change) {
    const auto before = graph_at(change - 1), now = graph_at(change);
    const auto was = values_of(*before, suspect_), is = values_of(*now, suspect_);
    const std::vector<int> old_top = top_level(lineage[change - 1]),
                           top = top_level(lineage[change]);
    std::map<int, size_t> place_before;  // number in the list -> top-level place
    for (size_t i = 0; i < old_top.size(); ++i) place_before[old_top[i]] = i;
    std::map<int, size_t> last;  // of the nodes that one became
    for (size_t i = 0; i < top.size(); ++i) last[lineage[change].nodes[top[i]].origin] = i;
    for (size_t i = 0; i < top.size(); ++i) {
      const LineageNode& node = lineage[change].nodes[top[i]];
      const auto origin = place_before.find(node.origin);
      if (origin == place_before.end() || last[node.origin] != i) continue;
      if (!differ(is[i], was[origin->second])) continue;
      result_.node = node.text;
      result_.scope = node.provenance.scope;
      result_.file = node.provenance.file;
      result_.line = node.provenance.line;
      return true;
    }
    return false;
  }

  static bool differ(const std::vector<ir::Literal>& a, const std::vector<ir::Literal>& b) {
    if (a.empty() || a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!(a[i].type() == b[i].type())) return false;
      if (relative_error(a[i], b[i]) > step_tolerance(a[i].type().dtype)) return true;
    }
    return false;
  }

  bool find_kernel(const ir::Graph& graph) {
    ++result_.num_runs;
    for (const NodeError& each :
         compare_each_node(graph, suspect_.inputs, suspect_.states, make_kernels_)) {
      if (!each.is_over()) continue;
      result_.fault = Bisection::Fault::kKernel;
      result_.symptom =
          fmt::format("{:.2g} off its reference, allowed is {:.0e}", each.error, each.tolerance);
      result_.node = each.node;
      result_.scope = each.scope;
      result_.file = each.file;
      result_.line = each.line;
      return true;
    }
    return false;
  }

  Outcome execute(const ir::Graph& graph) const {
    const auto copy = graph.clone();
    passes::StateLayout where;
    passes::PassContext context;
    const passes::Layout layout = passes::assign_layout(*copy, where, context);
    const ir::Program program = compiler::build_program(*copy, layout, ir::DeviceSpec());
    runtime::Executor executor(program, make_kernels_(program.kernels));
    for (const auto& input : program.inputs) {
      executor.set_input(input.name, suspect_.inputs.at(input.name));
    }
    for (const auto& state : program.states) {
      executor.write_state(state.name, suspect_.states.at(state.name));
    }
    executor.run();
    Outcome outcome = suspect_.states;
    for (const auto& state : program.states) outcome[state.name] = executor.read_state(state.name);
    for (const auto& output : program.outputs) outcome[output.name] = executor.output(output.name);
    return outcome;
  }

  const Suspect& suspect_;
  const KernelMaker& make_kernels_;
  Outcome expected_;
  Bisection result_;
  int num_passes_ = 0;
};

}  // namespace

Bisection bisect(const Suspect& suspect, const KernelMaker& make_kernels) {
  return Search(suspect, make_kernels).run();
}

}  // namespace monograph::verify
