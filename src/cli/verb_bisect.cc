#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/model_options.h"
#include "cli/training_step.h"
#include "cli/verbs.h"
#include "codegen/cpu/compile.h"
#include "frontend/session/executable.h"
#include "runtime/cpu/copy_bandwidth.h"
#include "verify/bisect.h"

namespace monograph::cli {
namespace {

using nlohmann::ordered_json;

// Kernels of the compiler, kept loaded.
class Kernels {
 public:
  explicit Kernels(const session::CompileOptions& options) : options_(options) {}
  verify::KernelMaker maker() {
    return [this](std::span<const ir::Loop> loops) {
      made_.push_back(codegen::compile_loops(
          loops, {.compiler = options_.compiler, .cache_directory = options_.cache_dir}));
      return runtime::as_kernels(made_.back().functions);
    };
  }

 private:
  const session::CompileOptions& options_;
  std::vector<codegen::CompiledKernels> made_;
};

std::string fault_name(verify::Bisection::Fault fault) {
  switch (fault) {
    case verify::Bisection::Fault::kNone:
      return "none";
    case verify::Bisection::Fault::kPass:
      return "pass";
    case verify::Bisection::Fault::kKernel:
      return "kernel";
    case verify::Bisection::Fault::kPlan:
      return "plan";
  }
  return "?";
}

void print(const verify::Bisection& found) {
  using Fault = verify::Bisection::Fault;
  if (found.fault == Fault::kNone) {
    fmt::print(
        "right     outputs and states are those of the interpreter, after all passes and "
        "compiled ({} graphs run)\n",
        found.num_runs);
    return;
  }
  fmt::print("wrong     {}\n", found.symptom);
  if (found.fault == Fault::kPass) {
    fmt::print(
        "pass      {} (place {} in the pipeline) changes what the step computes; go on "
        "without it: --disable-pass {}\n",
        found.pass, found.application, found.pass);
  } else if (found.fault == Fault::kKernel) {
    fmt::print("kernel    the passes are right; this step does not compute its node\n");
  } else {
    fmt::print(
        "plan      each step is right alone, together they are not: layout, memory or order; "
        "wrong since pass {} (place {})\n",
        found.pass, found.application);
  }
  if (found.node.empty()) return;
  fmt::print("node      {}\n", found.node);
  if (!found.file.empty()) {
    fmt::print("from      {}:{}{}{}\n", found.file, found.line, found.scope.empty() ? "" : " in ",
               found.scope);
  }
}

ordered_json to_json(const verify::Bisection& found) {
  return {{"fault", fault_name(found.fault)},
          {"symptom", found.symptom},
          {"pass", found.pass},
          {"application", found.application},
          {"node", found.node},
          {"scope", found.scope},
          {"file", found.file},
          {"line", found.line},
          {"graphs_run", found.num_runs}};
}

void print(const verify::SlownessReport& report) {
  fmt::print("step {:.2f} ms with all passes\n\n{:<26}{:>12}\n", report.step_ms, "pass", "without");
  for (const verify::PassTiming& each : report.passes) {
    fmt::print("{:<26}{:>9.2f} ms  {}\n", each.pass, each.without_ms,
               each.makes_slower ? "makes the step slower" : "");
  }
  fmt::print("\nkernels furthest from what their bytes need\n{:>10}{:>10}  step\n", "ms", "least");
  for (const verify::SlowStep& step : report.steps) {
    fmt::print("{:>10.3f}{:>10.3f}  {}\n", step.ms, step.least_ms, step.name.substr(0, 76));
  }
}

ordered_json to_json(const verify::SlownessReport& report) {
  ordered_json json = {{"step_ms", report.step_ms}};
  for (const verify::PassTiming& each : report.passes) {
    json["passes"].push_back({{"pass", each.pass},
                              {"without_ms", each.without_ms},
                              {"makes_slower", each.makes_slower}});
  }
  for (const verify::SlowStep& step : report.steps) {
    json["steps"].push_back({{"name", step.name}, {"ms", step.ms}, {"least_ms", step.least_ms}});
  }
  return json;
}

}  // namespace

int run_bisect(std::span<const std::string> args) {
  train::ModelConfig config;
  session::CompileOptions options;
  bool json = false, slow = false;
  int64_t num_steps = 7;
  double margin = 0.05;
  Arguments arguments("monograph bisect",
                      "finds the pass and the node that make a model's training step wrong, or "
                      "slow; with 2 rows of "
                      "16 tokens, or 2 images of 32 pixels a side, unless sizes are given");
  add_model_options(arguments, config, /*takes_images=*/true);
  add_compile_options(arguments, options);
  arguments.option("slow", &slow, "look for what makes it slow, by timing");
  arguments.option("steps", &num_steps, "slow: steps timed of each");
  arguments.option("margin", &margin, "slow: share of a step that counts");
  arguments.option("json", &json, "print JSON");
  if (!arguments.parse(args)) return 0;
  if (options.backend != "cpu") {
    throw_user_error("bisect needs backend cpu, '{}' was given", options.backend);
  }
  if (num_steps < 1) throw_user_error("--steps {}: use 1 or more", num_steps);

  take_small_sizes(config);
  const auto model = train::make_model(config);
  session::CompileOptions tracing = options;
  tracing.backend = "interpret";
  session::Session session({.seed = 1, .options = tracing});
  auto step =
      session.compile_traced(training_step(*model, {.epsilon = kForgivingEpsilon}), tracing);
  verify::Suspect suspect{.traced = &step.graph(model->input_types()),
                          .options = session::pass_options(options)};
  for (const ir::Node* input : suspect.traced->inputs()) {
    const size_t number = suspect.inputs.size();
    suspect.inputs[input->name()] = step_inputs(*model)[number];
  }
  for (const std::string& name : session.state_names()) suspect.states[name] = session.state(name);
  Kernels kernels(options);
  if (slow) {
    const auto report = verify::find_slowness(suspect, kernels.maker(), static_cast<int>(num_steps),
                                              margin, runtime::measure_copy_bandwidth());
    json ? fmt::print("{}\n", to_json(report).dump(2)) : print(report);
    return 0;
  }
  const verify::Bisection found = verify::bisect(suspect, kernels.maker());
  json ? fmt::print("{}\n", to_json(found).dump(2)) : print(found);
  return found.fault == verify::Bisection::Fault::kNone ? 0 : 1;
}

}  // namespace monograph::cli
