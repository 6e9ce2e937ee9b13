#pragma once

#include <string>
#include <vector>

#include "frontend/session/executable.h"
#include "frontend/session/session.h"

namespace monograph::verify {

// A kernel as it was compiled, and what it does in a step.
struct KernelRow {
  int id = 0;
  std::string ops;  // "add,sum,mul,..."
  std::string phase;
  int num_calls = 0, num_nodes = 0;  // launches a step; graph nodes in one
  int64_t bytes_moved = 0;           // a step
  int64_t compile_ns = 0;            // now or when it came into the cache; 0: not compiled
  std::string source;                // where it lies; empty: not compiled
};

// Why edges between two kernels stayed.
struct UnfusedRow {
  std::string cause;
  int num_edges = 0;
  std::string example;
};

struct CollectiveRow {
  int step = 0;
  std::string name, axis;
  int num_tensors = 0;
  int64_t num_bytes = 0;
};

// A step that neither generated code nor a library of fast kernels runs.
struct FallbackRow {
  std::string what, reason;
  int num_calls = 0;
};

// What one signature of a compiled function became.
struct Explanation {
  std::vector<std::pair<std::string, std::string>> guards;  // subject, what it must be
  std::vector<trace::HostRead> breaks;
  std::vector<KernelRow> kernels;
  int num_fused_edges = 0;  // between nodes of one kernel
  int num_fused_nodes = 0, num_kernel_nodes = 0;
  std::vector<UnfusedRow> unfused;  // most edges first
  std::vector<FallbackRow> fallbacks;
  std::vector<CollectiveRow> collectives;
  int64_t persistent_bytes = 0;        // weights, moments, gradients, inputs, outputs
  std::vector<int64_t> scratch_bytes;  // alive in each step
  std::vector<std::string> step_names, step_phases;
  std::vector<compiler::PassRecord> passes;
  int64_t trace_ns = 0, verify_ns = 0, lower_ns = 0, codegen_ns = 0;
  int num_from_cache = 0;

  double fused_share() const;  // of kernel nodes, 0 to 1; 1 where there are none
};

// `guards`: Compiled::guards. `breaks`: of the path.
Explanation explain(std::vector<std::pair<std::string, std::string>> guards,
                    const session::TraceRecord& record, const std::vector<trace::HostRead>& breaks,
                    const session::Build& build);

// Tables, at most 100 columns wide.
std::string to_text(const Explanation& explanation);
std::string to_json(const Explanation& explanation);

}  // namespace monograph::verify
