#pragma once

#include <memory>
#include <vector>

#include "codegen/cpu/compile.h"
#include "codegen/cuda/compile.h"
#include "compiler/compile.h"
#include "frontend/session/options.h"
#include "ir/graph.h"
#include "runtime/cpu/executor.h"
#include "runtime/interpreter.h"

namespace monograph::session {

class CpuStates;
class HostStates;

// How a graph became something that runs, for reports.
struct Build {
  compiler::Compilation compilation;
  codegen::CompiledKernels kernels;             // backend cpu only
  codegen::cuda::CompiledKernels cuda_kernels;  // for a GPU only
};

// A compiled graph, ready to run on the states that it was made for.
class Executable {
 public:
  virtual ~Executable() = default;
  // One step: the outputs in the graph's order.
  virtual std::vector<ir::Literal> run(const runtime::InputMap& inputs) = 0;
  virtual const Build* build() const { return nullptr; }
  // From now on, run() adds up the time of each step of the Program.
  virtual void measure_steps(bool) {}
  virtual std::vector<runtime::StepTime> step_times() const { return {}; }
};

using Mesh = std::shared_ptr<const runtime::MeshContext>;

// Each makes the executable of one backend. The states must outlive it. `mesh`: null for one rank.
std::unique_ptr<Executable> make_interpreted(const ir::Graph& graph, HostStates& states, Mesh mesh);
std::unique_ptr<Executable> make_null(const ir::Graph& graph, const CompileOptions& options);
std::unique_ptr<Executable> make_cpu(const ir::Graph& graph, CpuStates& states,
                                     const CompileOptions& options, Mesh mesh);

}  // namespace monograph::session
