#include "frontend/session/dynamic_executable.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "compiler/dynamic_program.h"
#include "frontend/session/pass_fuse.h"
#include "frontend/session/state_storage.h"
#include "frontend/session/statement.h"

namespace monograph::session {
namespace {

class DynamicInterpreted : public DynamicExecutable {
 public:
  DynamicInterpreted(HostStates& states, Mesh mesh) : states_(states), mesh_(std::move(mesh)) {}

  void set_sizes(const ir::SizeSteps& steps, const ir::Graph& graph) override {
    graphs_[steps] = graph.clone();
    set_sizes(steps);
  }
  void set_sizes(const ir::SizeSteps& steps) override { now_ = graphs_.at(steps).get(); }

  std::vector<ir::Literal> run(const runtime::InputMap& inputs) override {
    return runtime::interpret(*now_, inputs, states_.map(), mesh_.get());
  }

 private:
  HostStates& states_;
  const Mesh mesh_;
  std::map<ir::SizeSteps, std::unique_ptr<ir::Graph>> graphs_;
  const ir::Graph* now_ = nullptr;
};

// The segments of the largest sizes; all sizes run in them.
class SharedSegments {
 public:
  explicit SharedSegments(const ir::Program& largest) {
    for (size_t s = 0; s < memory_.size(); ++s) {
      if (is_of_states(s) || largest.segment_bytes[s] == 0) continue;
      memory_[s] = runtime::AlignedMemory(largest.segment_bytes[s]);
    }
  }

  runtime::SegmentBases with(runtime::SegmentBases states) const {
    for (size_t s = 0; s < memory_.size(); ++s) {
      if (!is_of_states(s)) states[s] = memory_[s].data();
    }
    return states;
  }

 private:
  static bool is_of_states(size_t segment) {
    const auto kind = static_cast<ir::Segment>(segment);
    return kind == ir::Segment::kWeights || kind == ir::Segment::kMoments ||
           kind == ir::Segment::kBuffers;
  }
  std::array<runtime::AlignedMemory, ir::kNumSegments> memory_;
};

class DynamicCpu : public DynamicExecutable {
 public:
  DynamicCpu(std::shared_ptr<compiler::DynamicProgram> program, CpuStates& states,
             const CompileOptions& options, Mesh mesh)
      : dynamic_(std::move(program)),
        states_(states),
        mesh_(std::move(mesh)),
        segments_(dynamic_->largest.program) {
    const auto compile = [this](const codegen::CompileOptions& with) {
      std::vector<codegen::KernelSource> sources;
      for (const codegen::SizedKernel& kernel : dynamic_->kernels) sources.push_back(kernel.source);
      return codegen::compile_sources(sources, with);
    };
    supply_ = std::make_unique<KernelSupply>(dynamic_->largest.program, compile, options, mesh_);
    compiler::Compilation& compilation = build_.compilation;
    compilation.graph = dynamic_->largest.graph->clone();
    compilation.program = dynamic_->largest.program;
    compilation.passes = dynamic_->largest.passes;
    compilation.remarks = dynamic_->largest.remarks;
    compilation.num_traced_nodes = dynamic_->largest.num_traced_nodes;
    compilation.lower_ns = dynamic_->largest.lower_ns;
    compilation.scratch = dynamic_->largest.scratch;
    note_supply();
  }

  void set_sizes(const ir::SizeSteps& steps, const ir::Graph&) override { set_sizes(steps); }
  void set_sizes(const ir::SizeSteps& steps) override { now_ = steps; }

  std::vector<ir::Literal> run(const runtime::InputMap& inputs) override {
    if (supply_->update()) bound_.clear();
    note_supply();
    Bound& bound = bind();
    for (const ir::ProgramTensor& input : bound.program.inputs) {
      const auto given = inputs.find(input.name);
      check(given != inputs.end(), "input '{}' was not given", input.name);
      bound.executor->set_input(input.name, given->second);
    }
    bound.executor->run();
    std::vector<ir::Literal> outputs;
    for (const ir::ProgramTensor& output : bound.program.outputs) {
      outputs.push_back(bound.executor->output(output.name));
    }
    return outputs;
  }

  const Build* build() const override { return &build_; }

 private:
  // The Program at one choice of sizes, its addresses resolved.
  struct Bound {
    ir::Program program;
    std::unique_ptr<runtime::Executor> executor;
    int64_t last_use = 0;
  };
  static constexpr size_t kMostBound = 32;

  void note_supply() {
    build_.fallback = supply_->fallback();
    if (build_.kernels.functions.empty()) build_.kernels = supply_->compiled();
  }

  Bound& bind() {
    if (bound_to_ != states_.num_moves()) bound_.clear();
    bound_to_ = states_.num_moves();
    const auto [found, is_new] = bound_.try_emplace(now_);
    Bound& bound = found->second;
    bound.last_use = ++num_runs_;
    if (!is_new) return bound;
    bound.program = dynamic_->program_at(now_);
    bound.executor = std::make_unique<runtime::Executor>(
        bound.program,
        supply_->is_eager() ? eager_kernels(bound.program.kernels)
                            : runtime::as_kernels(supply_->compiled().functions),
        segments_.with(states_.bases()), mesh_.get());
    if (bound_.size() > kMostBound) {
      bound_.erase(std::min_element(bound_.begin(), bound_.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
    }
    return bound;
  }

  std::shared_ptr<compiler::DynamicProgram> dynamic_;
  CpuStates& states_;
  const Mesh mesh_;
  SharedSegments segments_;
  Build build_;
  std::map<ir::SizeSteps, Bound> bound_;
  ir::SizeSteps now_;
  int64_t num_runs_ = 0, bound_to_ = -1;
  std::unique_ptr<KernelSupply> supply_;  // last: its thread uses dynamic_
};

}  // namespace

namespace {

// compile_dynamic within the limits of the options.
std::shared_ptr<compiler::DynamicProgram> compile_within_limits(
    const ir::SizeGrid& grid, std::span<const ir::Graph* const> traced, passes::StateLayout& states,
    const CompileOptions& options, const runtime::MeshContext* mesh, std::string& why) {
  if (!has_pass_fuse(options)) {
    return compiler::compile_dynamic(grid, traced, states, pass_options(options), why);
  }
  struct Job {
    ir::SizeGrid grid;
    std::vector<std::unique_ptr<ir::Graph>> graphs;
    passes::StateLayout layout;
    compiler::PassOptions passes;
    PassProgress progress = {};
    std::string why = {};
    std::shared_ptr<compiler::DynamicProgram> program = nullptr;
    void run() {
      passes.on_begin = [this](std::string_view pass) { progress.begin(pass); };
      std::vector<const ir::Graph*> all;
      for (const auto& graph : graphs) all.push_back(graph.get());
      program = compiler::compile_dynamic(grid, all, layout, passes, why);
    }
  };
  const std::shared_ptr<Job> job(new Job{grid, {}, states, pass_options(options)});
  for (const ir::Graph* graph : traced) job->graphs.push_back(graph->clone());
  if (!has_collectives(*traced[0])) mesh = nullptr;
  const Fallback outcome =
      run_passes_within_limits(options, mesh, job->progress, [job] { job->run(); });
  why = outcome.cause.empty() ? job->why : outcome.cause;
  if (!outcome.cause.empty()) return nullptr;
  states = std::move(job->layout);
  return std::move(job->program);
}

}  // namespace

std::unique_ptr<DynamicExecutable> make_dynamic_cpu(const ir::SizeGrid& grid,
                                                    std::span<const ir::Graph* const> traced,
                                                    CpuStates& states,
                                                    const CompileOptions& options, Mesh mesh,
                                                    std::string& why) {
  auto program = compile_within_limits(grid, traced, states.layout(), options, mesh.get(), why);
  states.fit_layout();
  if (program == nullptr) return nullptr;
  return std::make_unique<DynamicCpu>(std::move(program), states, options, std::move(mesh));
}

std::unique_ptr<DynamicExecutable> make_dynamic_interpreted(HostStates& states, Mesh mesh) {
  return std::make_unique<DynamicInterpreted>(states, std::move(mesh));
}

}  // namespace monograph::session
