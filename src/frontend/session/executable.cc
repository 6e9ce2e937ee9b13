#include "frontend/session/executable.h"

#include "base/error.h"
#include "frontend/session/pass_fuse.h"
#include "frontend/session/state_storage.h"

namespace monograph::session {

compiler::PassOptions pass_options(const CompileOptions& options) {
  std::vector<std::string> disabled = options.disabled_passes;
  if (options.comm_optimization_level < 1) disabled.emplace_back("bucket_all_reduce");
  if (options.comm_optimization_level < 2) {
    disabled.emplace_back("overlap_collectives");
    disabled.emplace_back("prefetch_units");
  }
  return {.disabled = std::move(disabled),
          .stop_after = static_cast<int>(options.stop_after),
          .dump_dir = options.dump_dir,
          .verify = options.verify == "fatal",
          .link = link_of(options),
          .device = ir::DeviceSpec::named(options.target),
          .deterministic = options.deterministic,
          .loss_chunk_bytes = options.loss_chunk_bytes,
          .records_lineage = options.records_lineage};
}

std::span<const compiler::PipelineStep> pipeline_of(const CompileOptions& options) {
  if (options.pipeline.empty()) return compiler::pipeline();
  return options.pipeline;
}

namespace {

class Interpreted : public Executable {
 public:
  Interpreted(const ir::Graph& graph, HostStates& states, Mesh mesh)
      : graph_(graph.clone()), states_(states), mesh_(std::move(mesh)) {}
  std::vector<ir::Literal> run(const runtime::InputMap& inputs) override {
    return runtime::interpret(*graph_, inputs, states_.map(), mesh_.get());
  }

 private:
  std::unique_ptr<ir::Graph> graph_;
  HostStates& states_;
  const Mesh mesh_;
};

class Null : public Executable {
 public:
  Null(const ir::Graph& graph, const CompileOptions& options) {
    passes::StateLayout states;
    const compiler::PassOptions passes = pass_options(options);
    build_.compilation =
        compiler::compile(graph, states, passes, memory_budget(options), pipeline_of(options));
    if (!passes.device.is_cuda()) return;
    build_.cuda_kernels =
        codegen::cuda::compile_loops(build_.compilation.program.kernels, passes.device);
  }
  std::vector<ir::Literal> run(const runtime::InputMap&) override {
    throw_user_error("backend null compiles and runs nothing: use backend cpu or interpret to run");
  }
  const Build* build() const override { return &build_; }

 private:
  Build build_;
};

class Cpu : public Executable {
 public:
  Cpu(compiler::Compilation compilation, CpuStates& states, const CompileOptions& options,
      Mesh mesh, bool compiles)
      : states_(states), mesh_(std::move(mesh)) {
    build_.compilation = std::move(compilation);
    states.fit_layout();
    const auto compile = [this](const codegen::CompileOptions& with) {
      return codegen::compile_loops(program().kernels, with);
    };
    if (compiles) supply_ = std::make_unique<KernelSupply>(program(), compile, options, mesh_);
    note_supply();
  }

  std::vector<ir::Literal> run(const runtime::InputMap& inputs) override {
    const bool has_other_kernels = supply_ && supply_->update();
    note_supply();
    bind(has_other_kernels);
    for (const ir::ProgramTensor& input : program().inputs) {
      const auto given = inputs.find(input.name);
      check(given != inputs.end(), "input '{}' was not given", input.name);
      executor_->set_input(input.name, given->second);
    }
    executor_->run();
    std::vector<ir::Literal> outputs;
    for (const ir::ProgramTensor& output : program().outputs) {
      outputs.push_back(executor_->output(output.name));
    }
    return outputs;
  }

  const Build* build() const override { return &build_; }
  void measure_steps(bool on) override {
    is_measuring_ = on;
    if (executor_) executor_->measure_steps(on);
  }
  std::vector<runtime::StepTime> step_times() const override {
    return executor_ ? executor_->step_times() : std::vector<runtime::StepTime>();
  }

 private:
  const ir::Program& program() const { return build_.compilation.program; }

  void note_supply() {
    if (!supply_) return;
    build_.fallback = supply_->fallback();
    if (build_.kernels.functions.empty()) build_.kernels = supply_->compiled();
  }

  // Addresses are resolved once, and again only if the states have moved since.
  void bind(bool has_other_kernels) {
    if (executor_ && !has_other_kernels && bound_to_ == states_.num_moves()) return;
    bound_to_ = states_.num_moves();
    executor_.reset();  // first: it holds memory of the ranks' communicators
    auto kernels = !supply_ || supply_->is_eager()
                       ? eager_kernels(program().kernels)
                       : runtime::as_kernels(supply_->compiled().functions);
    executor_ = std::make_unique<runtime::Executor>(program(), std::move(kernels), states_.bases(),
                                                    mesh_.get());
    executor_->measure_steps(is_measuring_);
  }

  CpuStates& states_;
  const Mesh mesh_;
  Build build_;
  std::unique_ptr<KernelSupply> supply_;  // null: never compiled
  std::unique_ptr<runtime::Executor> executor_;
  int64_t bound_to_ = -1;
  bool is_measuring_ = false;
};

}  // namespace

std::unique_ptr<Executable> make_interpreted(const ir::Graph& graph, HostStates& states,
                                             Mesh mesh) {
  return std::make_unique<Interpreted>(graph, states, std::move(mesh));
}

std::unique_ptr<Executable> make_null(const ir::Graph& graph, const CompileOptions& options) {
  return std::make_unique<Null>(graph, options);
}

namespace {

std::unique_ptr<Executable> make(const ir::Graph& graph, CpuStates& states,
                                 const CompileOptions& options, Mesh mesh, Fallback& fallback,
                                 bool compiles) {
  std::optional<compiler::Compilation> compilation =
      compile_within_limits(graph, states.layout(), options, mesh.get(), fallback);
  if (!compilation) return nullptr;
  return std::make_unique<Cpu>(std::move(*compilation), states, options, std::move(mesh), compiles);
}

}  // namespace

std::unique_ptr<Executable> make_cpu(const ir::Graph& graph, CpuStates& states,
                                     const CompileOptions& options, Mesh mesh, Fallback& fallback) {
  return make(graph, states, options, std::move(mesh), fallback, true);
}

std::unique_ptr<Executable> make_uncompiled_cpu(const ir::Graph& graph, CpuStates& states,
                                                const CompileOptions& options, Mesh mesh,
                                                Fallback& fallback) {
  return make(graph, states, options, std::move(mesh), fallback, false);
}

}  // namespace monograph::session
