#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "codegen/cpu/compile.h"
#include "codegen/cuda/compile.h"
#include "compiler/compile.h"
#include "frontend/session/kernel_supply.h"
#include "frontend/session/options.h"
#include "ir/graph.h"
#include "runtime/cpu/copy_bandwidth.h"
#include "runtime/cpu/executor.h"
#include "runtime/interpreter.h"

namespace monograph::session {

class CpuStates;
class HostStates;

// How a graph became something that runs, for reports.
struct Build {
  compiler::Compilation compilation;
  codegen::CompiledKernels kernels;             // backend cpu only
  Fallback fallback;                            // backend cpu only
  codegen::cuda::CompiledKernels cuda_kernels;  // for a GPU only
};

// A compiled graph, ready to run on the states that it was made for.
class Executable {
 public:
  virtual ~Executable() = default;
  // One step: the outputs in the graph's order.
  virtual std::vector<ir::Literal> run(const runtime::InputMap& inputs) = 0;
  // Gives the step to the device and returns while it runs there, where that can be; what is
  // returned waits for the outputs, and must be called before kMaxStarted more steps are started.
  using Outputs = std::function<std::vector<ir::Literal>()>;
  static constexpr int kMaxStarted = 3;
  virtual Outputs start(const runtime::InputMap& inputs) {
    return [outputs = run(inputs)] { return outputs; };
  }
  virtual const Build* build() const { return nullptr; }
  // From now on, run() adds up the time of each step of the Program.
  virtual void measure_steps(bool) {}
  virtual std::vector<runtime::StepTime> step_times() const { return {}; }
  // Of the memory that the steps run in, measured: bytes read plus bytes written a second.
  virtual double copy_bandwidth() const { return runtime::measure_copy_bandwidth(); }
  // Of the GPU's memory, by whatever program; 0 on the host.
  virtual int64_t gpu_bytes_in_use() const { return 0; }
};

compiler::PassOptions pass_options(const CompileOptions& options);
std::span<const compiler::PipelineStep> pipeline_of(const CompileOptions& options);

using Mesh = std::shared_ptr<const runtime::MeshContext>;

// Each makes the executable of one backend. The states must outlive it. `mesh`: null for one rank.
std::unique_ptr<Executable> make_interpreted(const ir::Graph& graph, HostStates& states, Mesh mesh);
std::unique_ptr<Executable> make_null(const ir::Graph& graph, const CompileOptions& options);
// Where passes hang or fail within the options, `fallback` says so, and null is what no pass could
// make a Program of.
std::unique_ptr<Executable> make_cpu(const ir::Graph& graph, CpuStates& states,
                                     const CompileOptions& options, Mesh mesh, Fallback& fallback);
// The same Program on kernels that were compiled ahead (eager_kernels): no compiler runs.
std::unique_ptr<Executable> make_uncompiled_cpu(const ir::Graph& graph, CpuStates& states,
                                                const CompileOptions& options, Mesh mesh,
                                                Fallback& fallback);

}  // namespace monograph::session
