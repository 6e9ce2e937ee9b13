#pragma once

#include <set>
#include <string>
#include <vector>

#include "diagnose/compile/job.h"
#include "diagnose/compile/recompile.h"

// Why functions recompile: frame -> failing guard -> what changed -> earlier break that split the
// frame.
namespace monograph::diagnose {

// Recompiles of one function by one guard, with those of its continuations that the same change
// caused.
struct RecompileCause {
  CompiledFunction function;
  Guard guard;  // of the first
  std::set<int> ranks;
  std::set<std::string> compile_ids;
  std::vector<std::string> values;      // in the order seen: "8", "12", "16"; "" for unknown
  std::set<std::string> continuations;  // "torch_dynamo_resume_in_block_at_6"
  std::int64_t count = 0;
  int versions = 0;    // of the function that exist by now, of all causes; 0: unknown
  double seconds = 0;  // spent compiling; 0: unknown
  std::vector<std::string> evidence;
};

// Adds what the guard says of the value that changed, if it is new.
void add_values(const Guard& guard, RecompileCause& cause);

// "size of x at dimension 0: 8 -> 12 -> 16"
std::string describe_changes(const RecompileCause& cause);

// Heaviest first.
std::vector<RecompileCause> find_recompile_causes(const CompileJob& job);

// One recompile with the cause chosen for it.
struct ExplainedRecompile {
  int rank = -1;
  const Recompile* recompile = nullptr;
  Guard guard;
  std::int64_t count = 1;
  double seconds = 0;
};

// In the order of the logs, each recompile of a process once even if logged as text and trace.
std::vector<ExplainedRecompile> explain_recompiles(const CompileJob& job);

// The function and line of the break in "torch_dynamo_resume_in_block_at_6"; line 0 if `name` is no
// continuation.
struct Continuation {
  std::string function;
  int line = 0;
};
Continuation continuation_of(std::string_view name);

// The graph, as text and SVG, with a table of its roots.
void add_root_cause_section(const CompileJob& job, Report& report);

}  // namespace monograph::diagnose
