#include "frontend/session/cuda_backend.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "codegen/cuda/compile.h"
#include "frontend/session/cuda/states.h"
#include "runtime/cuda/copy_bandwidth.h"
#include "runtime/cuda/executor.h"

namespace monograph::session {
namespace {

// Candidates that max-autotune times for each product.
constexpr int kCandidates = 16;

ir::DeviceSpec device_spec(const device::cuda::Properties& found) {
  ir::DeviceSpec spec =
      ir::DeviceSpec::h200();  // what no property says: rates, as an H200 has them
  spec.name = found.name;
  spec.architecture = found.architecture();
  spec.num_multiprocessors = found.num_multiprocessors;
  spec.shared_bytes_per_block = found.shared_bytes_per_block;
  spec.l2_bytes = found.l2_bytes;
  spec.memory_bytes = found.memory_bytes;
  return spec;
}

class Cuda : public Executable {
 public:
  Cuda(const ir::Graph& graph, CudaStates& states, const CompileOptions& options, Mesh mesh)
      : states_(states), options_(options), mesh_(std::move(mesh)) {
    compiler::PassOptions passes = pass_options(options);
    passes.device = device_spec(states.context()->properties());
    build_.compilation = compiler::compile(graph, states.layout(), passes, memory_budget(options),
                                           pipeline_of(options));
    states.fit_layout();
    build_.cuda_kernels = codegen::cuda::compile_loops(program().kernels, passes.device);
  }

  std::vector<ir::Literal> run(const runtime::InputMap& inputs) override { return start(inputs)(); }

  Outputs start(const runtime::InputMap& inputs) override {
    static_assert(kMaxStarted < runtime::OutputRing::kSlots);
    bind();
    for (const ir::ProgramTensor& input : program().inputs) {
      const auto given = inputs.find(input.name);
      check(given != inputs.end(), "input '{}' was not given", input.name);
      executor_->set_input(input.name, given->second);
    }
    const int64_t step = executor_->run();
    warn_unless_replayed();
    return [this, step, executor = executor_] {
      std::vector<ir::Literal> outputs;
      for (const ir::ProgramTensor& output : program().outputs) {
        outputs.push_back(executor->output(output.name, step));
      }
      return outputs;
    };
  }

  const Build* build() const override { return &build_; }
  void measure_steps(bool on) override {
    is_measuring_ = on;
    if (executor_) executor_->measure_steps(on);
  }
  std::vector<runtime::StepTime> step_times() const override {
    return executor_ ? executor_->step_times() : std::vector<runtime::StepTime>();
  }

  int64_t gpu_bytes_in_use() const override {
    const device::cuda::MemoryInfo memory = states_.context()->memory();
    return memory.total_bytes - memory.free_bytes;
  }
  double copy_bandwidth() const override {
    return runtime::measure_gpu_copy_bandwidth(states_.context());
  }

 private:
  const ir::Program& program() const { return build_.compilation.program; }

  bool has_collectives() const {
    const std::vector<ir::Step>& steps = program().steps;
    return std::any_of(steps.begin(), steps.end(), [](const ir::Step& step) {
      return std::holds_alternative<ir::CollectiveStep>(step.work);
    });
  }

  // Addresses are resolved once, and again only if the states have moved since.
  void bind() {
    if (executor_ && bound_to_ == states_.num_moves()) return;
    bound_to_ = states_.num_moves();
    executor_.reset();  // its memory is free for the next
    executor_ = std::make_shared<runtime::CudaExecutor>(
        program(), build_.cuda_kernels.images, states_.context(),
        runtime::CudaExecutorOptions{.num_candidates =
                                         options_.mode == "max-autotune" ? kCandidates : 1},
        states_.bases(), has_collectives() ? states_.gpu_mesh(mesh_) : nullptr);
    executor_->measure_steps(is_measuring_);
  }

  // Asked for by name, a replay that cannot be is said once. The first step is never replayed.
  void warn_unless_replayed() {
    if (options_.mode == "default" || is_measuring_ || has_warned_ || ++num_runs_ < 2) return;
    has_warned_ = true;
    if (executor_->is_replayed()) return;
    fmt::print(stderr, "warning: mode {}: {} is not replayed as one CUDA graph: {}\n",
               options_.mode, options_.name, executor_->why_not_replayed());
  }

  CudaStates& states_;
  CompileOptions options_;
  const Mesh mesh_;
  Build build_;
  std::shared_ptr<runtime::CudaExecutor> executor_;
  int64_t bound_to_ = -1, num_runs_ = 0;
  bool is_measuring_ = false, has_warned_ = false;
};

// A process sees the GPUs of its host, or its own alone where the launcher hides the others.
device::cuda::ContextPtr open_gpu(int local_rank) {
  try {
    int count = 0;
    const device::cuda::Driver& api = device::cuda::driver();
    device::cuda::check_call(api, api.cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (count > 1 && local_rank >= count) {
      throw_user_error(
          "rank {} of this host would take GPU {}, but there are {}, numbered from 0: start at "
          "most "
          "{} ranks a host",
          local_rank, local_rank, count, count);
    }
    return device::cuda::Context::create(count > 1 ? local_rank : 0);
  } catch (const UserError& error) {
    throw_user_error("--device cuda: {}", error.what());
  }
}

}  // namespace

std::unique_ptr<StateStorage> make_cuda_states(int local_rank) {
  return std::make_unique<CudaStates>(open_gpu(local_rank));
}

std::unique_ptr<Executable> make_cuda(const ir::Graph& graph, StateStorage& states,
                                      const CompileOptions& options, Mesh mesh) {
  return std::make_unique<Cuda>(graph, dynamic_cast<CudaStates&>(states), options, std::move(mesh));
}

}  // namespace monograph::session
