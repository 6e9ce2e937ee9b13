#include "base/error.h"
#include "cli/model_options.h"
#include "cli/planned_model.h"
#include "cli/training_step.h"
#include "cli/verbs.h"
#include "frontend/session/session.h"
#include "ir/printer.h"
#include "train/report.h"

namespace monograph::cli {
namespace {

struct Show {
  bool graph = false, traced = false, program = false, kernels = false, remarks = false;
  bool passes = false;
};

void show_remarks(const std::vector<passes::Remark>& remarks) {
  for (const passes::Remark& remark : remarks) {
    fmt::print("{}: {}: {}\n", remark.pass, remark.node, remark.reason);
  }
}

void show(const Show& what, const ir::Graph& traced, const session::Build* build) {
  if (what.traced) fmt::print("{}\n", ir::to_text(traced, {.provenance = true}));
  if (build == nullptr) return;
  if (what.graph) fmt::print("{}\n", ir::to_text(*build->compilation.graph));
  if (what.program) fmt::print("{}\n", build->compilation.program.str());
  if (what.kernels) {
    const auto& kernels = build->compilation.program.kernels;
    for (size_t i = 0; i < kernels.size(); ++i) {
      const bool is_cuda = !build->cuda_kernels.sources.empty();
      const auto& sources = is_cuda ? build->cuda_kernels.sources : build->kernels.sources;
      fmt::print("kernel {}{}\n{}\n", i, i < sources.size() ? "  // " + sources[i] : "",
                 kernels[i].str());
    }
  }
  if (what.passes) {
    for (const compiler::PassRecord& pass : build->compilation.passes) {
      fmt::print("{:>2} {:<22}{:>7.1f} ms  {} -> {} nodes\n", pass.application, pass.name,
                 static_cast<double>(pass.duration_ns) / 1e6, pass.nodes_before, pass.nodes_after);
    }
    fmt::print("   {:<22}{:>7.1f} ms  layout, Loops, memory plan\n", "lower",
               static_cast<double>(build->compilation.lower_ns) / 1e6);
  }
  if (what.remarks) show_remarks(build->compilation.remarks);
}

struct DynamicOptions {
  bool batch = false, time = false;
};

// Axis 0 of all inputs are rows, axis 1 of tokens is time.
session::DynamicShapes dynamic_shapes_of(const train::Model& model, const DynamicOptions& dynamic,
                                         const std::vector<std::string>& names) {
  if (dynamic.time && model.is_image_model()) {
    throw_user_error("--dynamic-time of an image model: use --dynamic-batch");
  }
  session::DynamicShapes shapes;
  const std::vector<ir::TensorType> types = model.input_types();
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<session::Dim> dims(1);
    if (dynamic.batch) dims[0] = {"batch", 1, types[i].shape[0]};
    if (dynamic.time && types[i].shape.rank() > 1) dims.push_back({"time", 2, types[i].shape[1]});
    shapes[names[i]] = std::move(dims);
  }
  return shapes;
}

// Says how many compilations the ranges took: sizes below the largest are one more where the model
// does something else at the largest.
void print_dynamic(const session::CompileOptions& options, session::Compiled& step,
                   std::vector<ir::TensorType> types) {
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<int64_t> dims = types[i].shape.dims();
    const std::vector<session::Dim>& declared = options.dynamic_shapes.at(options.input_names[i]);
    for (size_t axis = 0; axis < declared.size(); ++axis) {
      if (declared[axis].max > declared[axis].min) --dims[axis];
    }
    types[i].shape = ir::Shape(std::move(dims));
  }
  step.graph(types);
  for (const std::string& each : step.specializations()) fmt::print("dynamic   {}\n", each);
  if (!step.specializations().empty()) return;
  std::string ranges;
  for (const session::Dim& dim : options.dynamic_shapes.begin()->second) {
    if (dim.is_fixed()) continue;
    ranges += fmt::format("{}{} {}..{}", ranges.empty() ? "" : ", ", dim.name, dim.min, dim.max);
  }
  const int count = step.num_signatures();
  fmt::print("dynamic   {}: {} compilation{}\n", ranges, count, count == 1 ? "" : "s");
}

void add_show_options(Arguments& arguments, Show& what) {
  arguments.option("traced", &what.traced, "print the graph as it was traced, with source lines");
  arguments.option("print", &what.graph, "print the graph after all passes");
  arguments.option("program", &what.program, "print the steps and where their bytes lie");
  arguments.option("kernels", &what.kernels, "print the Loop of each kernel and its source's path");
  arguments.option("passes", &what.passes, "print each pass with its time and what it left");
  arguments.option("remarks", &what.remarks, "print what the passes decided, and why");
}

}  // namespace

int run_compile(std::span<const std::string> args) {
  train::ModelConfig config;
  session::CompileOptions options;
  Show what;
  StepShape shape;
  bool json = false;
  DynamicOptions dynamic;
  Arguments arguments("monograph compile",
                      "compiles a model's training step and says what came out");
  add_model_options(arguments, config, /*takes_images=*/true);
  add_compile_options(arguments, options);
  add_micro_batches_option(arguments, shape.num_micro_batches);
  add_moments_option(arguments, shape.moments);
  arguments.option("dynamic-batch", &dynamic.batch, "compile once for 1 to --batch rows");
  arguments.option("dynamic-time", &dynamic.time,
                   "compile once for 2 to --block tokens of context");
  add_show_options(arguments, what);
  arguments.option("json", &json, "print the report as JSON");
  MeshOptions mesh;
  add_mesh_options(arguments, mesh);
  add_stage_option(arguments, mesh);
  if (!arguments.parse(args)) return 0;

  if (!mesh.link.empty()) session::set_option(options, "link", mesh.link);
  const PlannedModel planned = plan_model(config, mesh, options, shape);
  shape.compression = mesh.compression(shape.mesh);
  train::Model* const model = planned.model.get();
  options.input_names = {"inputs", "targets"};
  const bool is_dynamic = dynamic.batch || dynamic.time;
  if (is_dynamic) options.dynamic_shapes = dynamic_shapes_of(*model, dynamic, options.input_names);
  session::Session session({.options = options, .mesh = planned.rank});
  auto step = session.compile_traced(training_step(*model, shape), options);
  const ir::Graph& traced = step.graph(model->input_types());
  const session::Build* build = step.executable(model->input_types()).build();
  const train::BuildReport report =
      train::make_build_report(step.trace_record(model->input_types()), build);
  if (json) {
    fmt::print("{}\n", train::to_json(report, {}));
    return 0;
  }
  if (what.remarks) show_remarks(step.trace_record(model->input_types()).remarks);
  show(what, traced, build);
  train::print(stdout, report);
  if (is_dynamic) print_dynamic(options, step, model->input_types());
  if (build != nullptr) {
    const double bandwidth = ir::DeviceSpec::named(options.target).copy_bandwidth;
    train::print(stdout, train::make_gpu_rows(*build, bandwidth));
    fmt::print("\n");
    train::print_summary(stdout, report, step.num_signatures() - 1);
  }
  return 0;
}

}  // namespace monograph::cli
