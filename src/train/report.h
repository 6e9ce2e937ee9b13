#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/session/build_events.h"
#include "frontend/session/executable.h"
#include "frontend/session/session.h"
#include "train/exchange_report.h"

namespace monograph::train {

// What compiling gave, in numbers.
struct BuildReport {
  std::string graph_hash;  // of the traced graph
  int num_traced_nodes = 0, num_nodes = 0;
  int64_t trace_ns = 0, verify_ns = 0;  // 0: not verified
  bool is_compiled = false;             // false for the interpreter: all that follows is 0
  int num_breaks = 0;                   // reads on the host, of the path traced
  int num_passes = 0;
  int num_kernels = 0, num_fused_kernels = 0, num_cached_kernels = 0;
  int num_kernel_nodes = 0, num_fused_nodes = 0;  // fused: shares a kernel with another node
  int num_library_calls = 0, num_copies = 0;
  int num_collectives = 0, num_buckets = 0;  // buckets: of more than one gradient
  int64_t exchanged_bytes = 0;               // a step
  passes::LeftOut left_out;                  // exchanges that would have told nothing new
  passes::ExchangeSavings savings;           // by compressed gradients
  int64_t bytes_moved = 0;                   // by generated kernels in a step
  int64_t bytes_least =
      0;  // that any choice of kernels could move, library calls being as they are
  int64_t peak_bytes = 0, bound_bytes = 0;
  passes::Recomputation recomputation;
  std::optional<analysis::PipelineReport> pipeline = {};
  int64_t passes_ns = 0, lower_ns = 0, codegen_ns = 0;
  std::map<std::string, int> unfused = {};  // edges between kernels, by why they stayed
  std::map<std::string, int> misses = {};   // kernels that were compiled, by why

  double fused_share() const;  // of kernel nodes, 0 to 1; 1 where there are none
};

// One kernel as compiled for a GPU, and what one launch of it should take.
struct GpuKernelRow {
  std::string name;   // its ops
  int num_calls = 0;  // a step
  int registers = 0;  // of a thread, the most of its functions
  int64_t shared_bytes = 0, spilled_bytes = 0;
  int64_t bytes_moved = 0;  // of a call
  double predicted_ms = 0;  // of a call: bytes over the copy bandwidth of the device
};
// Those that move most in a step first.
std::vector<GpuKernelRow> make_gpu_rows(const session::Build& build, double copy_bandwidth);
void print(std::FILE* out, std::span<const GpuKernelRow> rows);

// `build`: null for the interpreter.
BuildReport make_build_report(const session::TraceRecord& record, const session::Build* build);

// Three lines that can be searched for: "graph breaks: N", "compiled N kernels (M fused, X %)",
// "guard failures: N"; below 90 % with why the others are not. Guard failures: calls that nothing
// compiled served.
void print_summary(std::FILE* out, const BuildReport& report, int num_guard_failures);

// One line a stage: trace, verify, passes, codegen, traffic, memory.
void print(std::FILE* out, const BuildReport& report);

// One kind of work in a step: the launches of one kernel, or the products of one size.
struct WorkRow {
  std::string name;
  bool is_library = false;
  int num_calls = 0;  // a step
  double ms = 0;      // a step, all calls
  int64_t bytes_moved = 0, bytes_least = 0;
  double flops = 0;
};

// Where the time of the steps went.
struct RunReport {
  int64_t num_steps = 0;
  double p50_ms = 0, p99_ms = 0;  // of single steps
  // exposed: waiting for other ranks; idle: all else
  double step_ms = 0, library_ms = 0, generated_ms = 0, exposed_ms = 0, idle_ms = 0;
  double copy_bytes_per_s = 0;  // measured
  std::vector<WorkRow> rows;    // the slowest first
};
// `step_ns`: of each measured step.
RunReport make_run_report(const session::Build& build, std::span<const runtime::StepTime> times,
                          std::span<const int64_t> step_ns, double copy_bytes_per_s);

void print(std::FILE* out, const RunReport& report);
// {"build": {...}, "run": {...}, "exchange": {...}} without line breaks; `run` is left out when it
// has no steps, `exchange` when there is none.
std::string to_json(const BuildReport& build, const RunReport& run,
                    const ExchangeReport& exchange = {});

std::string grouped(int64_t number);  // "1,204"

}  // namespace monograph::train
