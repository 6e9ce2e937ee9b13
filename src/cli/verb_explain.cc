#include <algorithm>

#include "base/error.h"
#include "cli/model_options.h"
#include "cli/planned_model.h"
#include "cli/training_step.h"
#include "cli/verbs.h"
#include "codegen/cpu/render.h"
#include "codegen/cuda/render.h"
#include "train/report.h"
#include "verify/explain/drawing.h"
#include "verify/explain/explanation.h"
#include "verify/explain/provenance.h"
#include "verify/explain/step_nodes.h"

namespace monograph::cli {
namespace {

constexpr size_t kMostNodes = 8;  // paths shown at once

struct Wanted {
  std::string svg, op, node;
  int64_t kernel = -1;
  bool json = false;
};

std::string source_of(const ir::Loop& loop, const ir::DeviceSpec& device) {
  const std::string name = "kernel_" + loop.hash().hex();
  return device.is_cuda() ? codegen::cuda::render(loop, name, device).source
                          : codegen::render(loop, name);
}

// The steps that launch a kernel, the nodes that the first of them came from, and its source.
void show_kernel(const compiler::Compilation& compilation, int64_t id,
                 const ir::DeviceSpec& device) {
  const auto& kernels = compilation.program.kernels;
  if (id < 0 || id >= static_cast<int64_t>(kernels.size())) {
    throw_user_error("--kernel {}: the step has kernels 0 to {}", id, kernels.size() - 1);
  }
  std::vector<int> steps;
  for (size_t i = 0; i < compilation.program.steps.size(); ++i) {
    const auto* work = std::get_if<ir::KernelStep>(&compilation.program.steps[i].work);
    if (work != nullptr && work->kernel == id) steps.push_back(static_cast<int>(i));
  }
  fmt::print("kernel {}: launched in {} step{}\n", id, steps.size(), steps.size() == 1 ? "" : "s");
  for (int step : steps) {
    fmt::print("  step {:<5} {}\n", step, compilation.program.steps[step].name);
  }
  fmt::print("\nstep {} came from these nodes of the traced step:\n", steps[0]);
  for (int node : verify::origins_of_step(compilation, steps[0])) {
    fmt::print("  {}\n", verify::describe_traced(compilation, node));
  }
  fmt::print("\n{}\n", source_of(kernels[id], device));
}

void show_op(const compiler::Compilation& compilation, const std::string& op,
             const ir::DeviceSpec& device) {
  std::vector<int> kernels, calls;
  const auto steps = verify::step_nodes(compilation);
  for (size_t i = 0; i < steps.size(); ++i) {
    const ir::Graph* const body = steps[i].node->body();
    if (body == nullptr) {
      const bool is_half = steps[i].node->is(op + "_start");
      if (steps[i].node->is(op) || is_half) calls.push_back(static_cast<int>(i));
      continue;
    }
    const bool has_op = std::any_of(body->nodes().begin(), body->nodes().end(),
                                    [&](const auto& inner) { return inner->is(op); });
    if (!has_op) continue;
    kernels.push_back(std::get<ir::KernelStep>(compilation.program.steps[i].work).kernel);
  }
  if (kernels.empty() && calls.empty()) {
    throw_user_error("--op {}: no step does it; 'monograph explain MODEL' lists what kernels do",
                     op);
  }
  for (int step : calls) {
    const ir::Step& call = compilation.program.steps[step];
    const bool is_exchange = std::holds_alternative<ir::CollectiveStep>(call.work);
    fmt::print("step {:<5} {} is a {}: {}\n", step, call.name,
               is_exchange ? "collective" : "library call",
               verify::work_of(call, *steps[step].node));
    if (!is_exchange) continue;
    for (int node : verify::origins_of_step(compilation, step)) {
      fmt::print("  from {}\n", verify::describe_traced(compilation, node));
    }
  }
  std::sort(kernels.begin(), kernels.end());
  kernels.erase(std::unique(kernels.begin(), kernels.end()), kernels.end());
  for (int kernel : kernels) show_kernel(compilation, kernel, device);
}

void show_node(const compiler::Compilation& compilation, const std::string& name) {
  const std::vector<int> found = verify::find_traced(compilation, name);
  if (found.size() > kMostNodes) {
    fmt::print("{} nodes of the traced step are '{}'; the first {}:\n\n", found.size(), name,
               kMostNodes);
  }
  for (size_t i = 0; i < std::min(found.size(), kMostNodes); ++i) {
    fmt::print("{}", verify::path_of(compilation, found[i]));
    for (int step : verify::steps_of(compilation, found[i])) {
      const size_t count = verify::origins_of_step(compilation, step).size();
      fmt::print("  {:<22} step {} came from {} traced node{}: --kernel shows them\n", "and back",
                 step, count, count == 1 ? ", this one" : "s");
    }
    fmt::print("\n");
  }
}

void show(const Wanted& wanted, const verify::Explanation& explanation,
          const train::BuildReport& report) {
  if (wanted.json) {
    fmt::print("{}\n", verify::to_json(explanation));
    return;
  }
  train::print(stdout, report);
  fmt::print("\n{}\n", verify::to_text(explanation));
  train::print_summary(stdout, report, 0);
}

void draw(const compiler::Compilation& compilation, const std::string& model,
          const ir::DeviceSpec& device, const Wanted& wanted) {
  const auto dot = verify::to_dot(verify::fold_steps(compilation),
                                  fmt::format("{}: one training step, {} steps of the program",
                                              model, compilation.program.steps.size()),
                                  device.is_cuda() ? "h200" : "cpu");
  verify::write_svg(dot, wanted.svg);
  if (!wanted.json) fmt::print("\ndrawn to {}\n", wanted.svg);
}

}  // namespace

int run_explain(std::span<const std::string> args) {
  train::ModelConfig config;
  session::CompileOptions options;
  options.records_lineage = true;
  Wanted wanted;
  StepShape shape;
  Arguments arguments("monograph explain", "says what a model's training step became, and why");
  add_model_options(arguments, config, /*takes_images=*/true);
  add_compile_options(arguments, options);
  add_micro_batches_option(arguments, shape.num_micro_batches);
  MeshOptions mesh;
  add_mesh_options(arguments, mesh);
  add_stage_option(arguments, mesh);
  add_moments_option(arguments, shape.moments);
  arguments.option("ranks", &shape.num_ranks,
                   "data parallel ranks that the step is compiled for; takes --backend null");
  arguments.option("svg", &wanted.svg, "draw the step to this file (takes Graphviz's dot)");
  arguments.option("kernel", &wanted.kernel,
                   "show this kernel: its source and the nodes that it came from");
  arguments.option("op", &wanted.op, "show the kernels that do this op, in the same way");
  arguments.option("node", &wanted.node,
                   "show where a node of the traced step went, pass by pass: a value (%57), op, "
                   "source location, state or scope");
  arguments.option("json", &wanted.json, "print everything as JSON");
  if (!arguments.parse(args)) return 0;

  if (shape.num_ranks < 1 || (shape.num_ranks > 1 && options.backend != "null")) {
    throw_user_error(
        "--ranks {} with --backend {}: use 1 or more, and with more backend null, which "
        "compiles for ranks that are not there",
        shape.num_ranks, options.backend);
  }
  const PlannedModel planned = plan_model(config, mesh, options, shape);
  train::Model* const model = planned.model.get();
  session::Session session({.options = options, .mesh = planned.rank});
  auto step = session.compile_traced(training_step(*model, shape), options);
  const session::Build* build = step.executable(model->input_types()).build();
  if (build == nullptr) {
    throw_user_error("--backend {} compiles nothing to explain: use cpu, cuda or null",
                     options.backend);
  }
  const compiler::Compilation& compilation = build->compilation;
  const ir::DeviceSpec device =
      build->cuda_kernels.sources.empty() ? ir::DeviceSpec() : ir::DeviceSpec::named("h200");
  if (wanted.kernel != -1) {
    show_kernel(compilation, wanted.kernel, device);
  } else if (!wanted.op.empty()) {
    show_op(compilation, wanted.op, device);
  } else if (!wanted.node.empty()) {
    show_node(compilation, wanted.node);
  } else {
    const session::TraceRecord& record = step.trace_record(model->input_types());
    const auto guards = step.guards(model->input_types());
    show(wanted, verify::explain(guards, record, step.breaks(), *build),
         train::make_build_report(record, build));
  }
  if (!wanted.svg.empty()) draw(compilation, model->config().name, device, wanted);
  return 0;
}

}  // namespace monograph::cli
