#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "frontend/trace/host_read.h"

namespace monograph::session {

// The sizes that one axis of an input may have. Axes with Dims of one name always have one size.
struct Dim {
  std::string name = {};  // empty: a fixed size, whatever it is at the first call
  int64_t min = 1, max = 1;
  int64_t multiple = 1;  // every size is one of this
  bool is_fixed() const { return name.empty(); }
};
// By input; one Dim an axis, from the first.
using DynamicShapes = std::map<std::string, std::vector<Dim>>;

// How a function is compiled.
struct CompileOptions {
  // cpu, cuda (this machine's GPU), interpret (op by op, the oracle), null (never runs)
  std::string backend = "cpu";
  std::string target = "cpu";  // what backend null compiles for: cpu, h200
  // Of backend cuda. default: the step is replayed as one CUDA graph where that can be; with
  // reduce-overhead a condition that does not hold is a warning that names it; max-autotune: so
  // too, and the algorithms of library calls are chosen by timing them.
  std::string mode = "default";
  std::string precision = "f32";  // what products compute in: f32, bf16
  // The residual stream of a transformer or ResNet and its gradient, as they are kept: f32, or bf16
  // with products in bf16 (see trace::Precision).
  std::string residual = "f32";
  // On GPUs: false lets the gradient of attention be added up in any order, which is faster and
  // takes less memory; two runs then differ in the last bits.
  bool deterministic = true;
  // What the step may take: bytes ("60MB", "1.5GB") or a fraction of what it takes ("0.7"); empty:
  // any. Above it, values are made again rather than kept: cheap ones, or products too.
  std::string memory_budget = {};
  std::string recompute = "cheap";
  bool fullgraph = false;        // a graph break is an error
  int64_t recompile_limit = 8;   // signatures and paths compiled; calls past it run op by op
  std::string verify = "fatal";  // off, warn (on stderr), fatal
  std::vector<std::string> disabled_passes = {};
  int64_t stop_after = -1;  // passes that may change the graph; -1: all
  // Logits are made in chunks of so many bytes at most, where nothing needs them whole; 0: of what
  // suits the device.
  int64_t loss_chunk_bytes = 0;
  bool records_lineage = false;  // which node became which, pass by pass: for explaining
  // Seconds after which the step runs without its compiled kernels until they are there (see
  // KernelSupply), and without passes that have not ended (pass_fuse.h); "0": waits for them;
  // "auto": what suits the kernels.
  std::string compile_timeout = "0";
  // A compiler or a pass that fails is a warning, and the step runs without it.
  bool suppress_errors = false;
  std::string compiler = {};   // of kernels: a g++, with arguments; empty: $CXX, else g++
  std::string cache_dir = {};  // of compiled kernels, with ${VARIABLES}; empty: the user's
  std::string dump_dir = {};   // the graph before and after each pass, as text files
  // 0: collectives as written; 1: gradients in buckets; 2: beside the computation, too.
  int64_t comm_optimization_level = 2;
  // Sizes of buckets follow from it. Nothing: LinkModel's own numbers, on GPUs those of nvlink().
  std::optional<ir::LinkModel> link = {};
  std::vector<std::string> input_names = {};  // default: input0, input1, ...
  std::string name = "step";                  // of the function, in events and reports
  // Compiled once for all these sizes (docs/dynamic_shapes.md).
  DynamicShapes dynamic_shapes = {};
  // An axis whose size changes between calls becomes dynamic, up to the largest size seen.
  bool dynamic = false;
  // Passes of the user's own, run in order on the traced graph.
  std::vector<compiler::PipelineStep> user_passes = {};
  // Ops that the registry has not and the host does: graph breaks (docs/graph_breaks.md).
  trace::HostOps host_ops = {};
  // In place of compiler::pipeline(), to try another order or a pass of one's own in the middle;
  // empty: that one.
  std::vector<compiler::PipelineStep> pipeline = {};
};

// Of the option; kAutomaticTimeout for "auto". UserError when it is neither.
inline constexpr double kAutomaticTimeout = -1;
double compile_timeout_seconds(const CompileOptions& options);

// Sets an option by its name and text. UserError names the valid options or values.
void set_option(CompileOptions& options, std::string_view name, std::string_view value);
// The same for a list, as "residual=bf16,deterministic=false"; empty: nothing.
void set_options(CompileOptions& options, std::string_view list);
// The link that collectives are planned for.
ir::LinkModel link_of(const CompileOptions& options);
// The budget that memory_budget and recompute say; UserError names the valid forms.
compiler::MemoryBudget memory_budget(const CompileOptions& options);
// UserError names the valid values of the option that is wrong.
void check_options(const CompileOptions& options);

}  // namespace monograph::session
