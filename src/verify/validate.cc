#include "verify/validate.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "analysis/validate_ops.h"
#include "base/error.h"
#include "codegen/cpu/compile.h"
#include "frontend/session/executable.h"
#include "frontend/session/guards.h"
#include "ir/verifier.h"
#include "verify/purity.h"

namespace monograph::verify {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostFailures = 10;  // shown of one check

std::vector<ir::TensorType> types_of(const std::vector<ir::Literal>& literals) {
  std::vector<ir::TensorType> types;
  for (const ir::Literal& literal : literals) types.push_back(literal.type());
  return types;
}

// The session and the function that a subject compiles to.
struct Compilation {
  explicit Compilation(const Subject& subject, const session::TracedFunction& function)
      : session({.seed = subject.seed, .options = subject.options}),
        compiled(session.compile_traced(function, subject.options)),
        types(types_of(subject.inputs)),
        device(subject.options.backend) {}

  const ir::Graph& graph() { return compiled.graph(types); }
  const session::Build* build() { return compiled.executable(types).build(); }
  std::map<std::string, ir::Literal> states() const {
    std::map<std::string, ir::Literal> values;
    for (const std::string& name : session.state_names()) values[name] = session.state(name);
    return values;
  }

  session::Session session;
  session::Compiled compiled;
  std::vector<ir::TensorType> types;
  std::string device;
};

std::map<std::string, ir::Literal> named_inputs(const ir::Graph& graph, const Subject& subject) {
  std::map<std::string, ir::Literal> named;
  for (const ir::Node* input : graph.inputs()) named[input->name()] = subject.inputs[named.size()];
  return named;
}

void add_failure(Check& check, std::string failure) {
  check.passed = false;
  if (check.failures.size() < kMostFailures) check.failures.push_back(std::move(failure));
}

Check check_structure(Compilation& step) {
  Check check{"structure", true, "", {}};
  const ir::Graph& graph = step.graph();
  std::vector<ir::Violation> violations = ir::verify(graph, {.dead_nodes = true});
  for (ir::Violation& each : analysis::validate_ops(graph)) violations.push_back(std::move(each));
  for (const ir::Violation& each : violations) add_failure(check, each.code + " " + each.message);
  check.finding = fmt::format("{} nodes against V1.1 to V1.27", graph.num_nodes());
  return check;
}

// By name: "cpu:weights".
std::map<std::string, std::string> placements_of(const std::vector<ir::ProgramTensor>& tensors,
                                                 const std::string& device) {
  std::map<std::string, std::string> placements;
  for (const ir::ProgramTensor& tensor : tensors) {
    placements[tensor.name] =
        fmt::format("{}:{}", device, ir::segment_name(tensor.address.segment));
  }
  return placements;
}

// The rows of the table of V2; parameters first used first.
std::vector<ParameterRow> parameter_rows(Compilation& with_step, Compilation& with_gradients) {
  const ir::Graph& step = with_step.graph();
  const std::string& device = with_step.device;
  auto at = placements_of(with_step.build()->compilation.program.states, device);
  auto gradient_at = placements_of(with_gradients.build()->compilation.program.outputs, device);
  std::vector<ParameterRow> rows;
  std::map<std::string, std::string> types;
  for (const ir::Graph::Output& output : with_gradients.graph().outputs()) {
    types[output.name] = output.value.type().str();
  }
  const auto users = ir::users_of(step);
  for (ir::Node* state : step.states()) {
    if (state->attribute<std::string>("role") != "parameter") continue;
    ParameterRow row;
    row.name = state->name();
    row.type = state->types()[0];
    row.gradient = types["grad." + state->name()];
    row.placement = at[state->name()];
    row.gradient_placement = gradient_at["grad." + state->name()];
    const auto found = users.find(state->result());
    if (found != users.end()) {
      row.first_use = found->second.front()->id();
      row.first_scope = found->second.front()->provenance().scope;
      row.last_use = found->second.back()->id();
      row.last_scope = found->second.back()->provenance().scope;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Check check_backward(Compilation& step, Compilation& gradients, std::vector<ParameterRow>& rows) {
  Check check{"backward", true, "", {}};
  rows = parameter_rows(step, gradients);
  const std::vector<std::string>& unused = step.compiled.unused_parameters();
  const std::set<std::string> is_unused(unused.begin(), unused.end());
  size_t num_gradients = 0;
  for (const ParameterRow& row : rows) {
    if (row.gradient.empty()) {
      if (is_unused.contains(row.name)) {
        add_failure(check, fmt::format("V2.4 parameter '{}': the loss does not depend on it; leave "
                                       "it out or freeze it",
                                       row.name));
      }
      continue;
    }
    ++num_gradients;
    if (row.gradient != row.type.str()) {
      add_failure(check, fmt::format("V2.2 parameter '{}' is {}, its gradient is {}", row.name,
                                     row.type.str(), row.gradient));
    }
    const auto device_of = [](const std::string& at) { return at.substr(0, at.find(':')); };
    if (device_of(row.placement) != device_of(row.gradient_placement)) {
      add_failure(check, fmt::format("V2 parameter '{}' lies in {}, its gradient in {}", row.name,
                                     row.placement, row.gradient_placement));
    }
  }
  int forward = 0, backward = 0, optimizer = 0;
  for (const auto& node : step.graph().nodes()) {
    if (node->is_placeholder()) continue;
    forward += node->phase() == ir::Phase::kForward;
    backward += node->phase() == ir::Phase::kBackward;
    optimizer += node->phase() == ir::Phase::kOptimizer;
  }
  check.finding =
      fmt::format("{} parameters, {} gradients; nodes: {} forward, {} backward, {} optimizer",
                  rows.size(), num_gradients, forward, backward, optimizer);
  return check;
}

Check check_nodes(Compilation& step, const Subject& subject, const KernelMaker& make_kernels,
                  std::vector<NodeError>& nodes) {
  Check check{"numerics", true, "", {}};
  const ir::Graph& fused = *step.build()->compilation.graph;
  codegen::CompiledKernels compiled;
  const KernelMaker own = [&](std::span<const ir::Loop> loops) {
    compiled = codegen::compile_loops(loops, {.compiler = subject.options.compiler,
                                              .cache_directory = subject.options.cache_dir});
    return runtime::as_kernels(compiled.functions);
  };
  nodes = compare_each_node(fused, named_inputs(fused, subject), step.states(),
                            make_kernels ? make_kernels : own);
  for (const NodeError& each : nodes) {
    if (!each.is_over()) continue;
    add_failure(check,
                fmt::format("V3 {}\n      at {}:{}{}{}: {:.2g} off its reference, allowed "
                            "is {:.0e}",
                            each.node, each.file, each.line, each.scope.empty() ? "" : " in ",
                            each.scope, each.error, each.tolerance));
  }
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const NodeError& a, const NodeError& b) { return a.error > b.error; });
  check.finding = fmt::format("{} compiled steps beside their references, largest error {:.1e}",
                              nodes.size(), nodes.empty() ? 0 : nodes[0].error);
  return check;
}

Check check_derivatives(Compilation& gradients, const Subject& subject,
                        std::vector<DirectionalDerivative>& derivatives) {
  constexpr double kTolerance = 1e-5;
  Check check{"gradients", true, "", {}};
  const ir::Graph& graph = gradients.graph();
  derivatives = compare_with_differences(graph, named_inputs(graph, subject), gradients.states());
  double largest = 0;
  for (const DirectionalDerivative& each : derivatives) {
    largest = std::max(largest, each.error());
    if (each.error() <= kTolerance) continue;
    add_failure(check, fmt::format("V3 parameter '{}': along one direction the gradient says {:g}, "
                                   "differences say {:g}",
                                   each.parameter, each.from_gradient, each.from_difference));
  }
  check.finding = fmt::format("{} parameters beside float64 differences, largest error {:.1e}",
                              derivatives.size(), largest);
  return check;
}

// Two steps: everything that came out, and everything that stays.
Hash run_and_digest(Compilation& step, const Subject& subject) {
  Hasher hasher;
  const auto add = [&](const ir::Literal& literal) {
    hasher.add(std::string_view(reinterpret_cast<const char*>(literal.data()),
                                static_cast<size_t>(literal.type().num_bytes())));
  };
  for (int i = 0; i < 2; ++i) {
    const session::Results results = step.compiled(subject.inputs);
    for (const ir::Literal& value : results.values) add(value);
  }
  for (const auto& [name, value] : step.states()) add(value);
  return hasher.finish();
}

Check check_reproducibility(const Subject& subject, std::string& digest) {
  Check check{"reproducible", true, "", {}};
  Compilation first(subject, subject.step), second(subject, subject.step);
  digest = run_and_digest(first, subject).hex();
  const std::string again = run_and_digest(second, subject).hex();
  if (digest != again) {
    add_failure(check, fmt::format("V4 two runs from one seed differ: {} and {}", digest, again));
  }
  const session::Build* build = second.build();
  const bool from_cache =
      build != nullptr && build->kernels.num_from_cache == build->kernels.num_distinct;
  check.finding = fmt::format("two steps twice{}: outputs and states are bitwise equal",
                              from_cache ? ", the second time from the cache" : "");
  return check;
}

Check check_purity(Compilation& step, const Subject& subject) {
  Check check{"purity", true, "", {}};
  for (const Impurity& each : find_impurities(subject.step, step.types, subject.options)) {
    add_failure(check, each.str());
  }
  check.finding = fmt::format("captured twice, one graph, no input or output; hash {}",
                              step.graph().hash().hex().substr(0, 12));
  return check;
}

// After a step: states lie where it has left them, inputs and outputs in the host's memory.
Check check_placement(const Subject& subject, std::vector<PlacementRow>& rows) {
  Check check{"placement", true, "", {}};
  Compilation step(subject, subject.step);
  step.compiled(subject.inputs);
  const ir::Program& program = step.build()->compilation.program;
  const std::string host(session::kHostDevice), device = subject.options.backend;
  const auto add = [&](const ir::ProgramTensor& tensor, std::string kind,
                       const std::string& expected, std::string actual) {
    rows.push_back({tensor.name, std::move(kind), expected, std::move(actual),
                    std::string(ir::segment_name(tensor.address.segment)),
                    tensor.type.num_bytes()});
  };
  for (const auto& tensor : program.inputs) add(tensor, "input", host, host);
  for (const auto& tensor : program.states) {
    add(tensor, std::string(ir::role_name(tensor.role)), device,
        step.session.state_device(tensor.name));
  }
  for (const auto& tensor : program.outputs) add(tensor, "output", host, host);
  for (std::string& each : misplaced(rows)) add_failure(check, std::move(each));
  check.finding =
      fmt::format("{} inputs, {} states and {} outputs where the step on {} looks",
                  program.inputs.size(), program.states.size(), program.outputs.size(), device);
  return check;
}

}  // namespace

std::vector<std::string> misplaced(const std::vector<PlacementRow>& rows) {
  std::vector<std::string> found;
  for (const PlacementRow& row : rows) {
    if (row.expected == row.actual) continue;
    found.push_back(fmt::format("V7 {} '{}' lies on {}, the step expects it on {}: copy it there",
                                row.kind, row.tensor, row.actual.empty() ? "no device" : row.actual,
                                row.expected));
  }
  return found;
}

bool Validation::passed() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& each) { return each.passed; });
}

std::string digest_of(const Subject& subject) {
  Compilation step(subject, subject.step);
  return run_and_digest(step, subject).hex();
}

Validation validate(const Subject& subject, const KernelMaker& make_kernels) {
  if (subject.options.backend != "cpu") {
    throw_user_error("validate needs backend cpu, '{}' was given", subject.options.backend);
  }
  Validation result;
  Compilation step(subject, subject.step), gradients(subject, subject.gradients);
  const auto run = [&](const auto& check) {
    const auto start = Clock::now();
    result.checks.push_back(check());
    result.checks.back().ns = std::chrono::nanoseconds(Clock::now() - start).count();
  };
  run([&] { return check_structure(step); });
  run([&] { return check_backward(step, gradients, result.parameters); });
  run([&] { return check_purity(step, subject); });
  run([&] { return check_placement(subject, result.placements); });
  run([&] { return check_nodes(step, subject, make_kernels, result.nodes); });
  run([&] { return check_derivatives(gradients, subject, result.derivatives); });
  run([&] { return check_reproducibility(subject, result.digest); });
  return result;
}

}  // namespace monograph::verify
