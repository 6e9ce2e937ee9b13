#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "diagnose/reader.h"

// What PyTorch's compiler said in one file, whether as TORCH_LOGS text or as a TORCH_TRACE log.
// Times are seconds. Compile ids are PyTorch's "frame/compile", e.g. "2/1", without the attempt;
// "!0/..." for compiled autograd; "" where the log has none.
namespace monograph::diagnose {

struct SourceFrame {
  std::string file;
  int line = 0;
  std::string function;
  std::string code;
};

// A function that was compiled. Compile ids restart when the compiler is reset and may stand for
// other code on other ranks, so a function is known by its name and place.
struct CompiledFunction {
  std::string name;
  std::string file;
  int line = 0;
  SourceFrame caller = {};  // of PyTorch's own wrappers: the user's line that called them
};

struct GraphBreak {
  int rank = -1;
  std::string compile_id;  // of the first
  std::string file;        // as the message says; where tracing stopped
  int line = 0;
  std::string reason;  // one line, e.g. "Data-dependent branching"
  std::string explanation;
  std::vector<std::string> hints;
  std::string context;  // "developer debug context", or what 2.6 put behind "Unsupported:"
  std::vector<SourceFrame> stack;  // outermost first; empty for repeats
  bool skips_function = false;     // the whole function runs without the compiler
  std::string evidence;
  std::int64_t count = 1;
};

// One cache entry's first failing guard.
struct GuardFailure {
  std::string entry;  // compile id of the entry
  std::string text;   // as logged, with its trailing comment
};

struct Recompile {
  int rank = -1;
  std::string compile_id;
  CompiledFunction function;
  std::vector<GuardFailure> failures;  // newest entry first, as logged
  std::string evidence;
  std::int64_t count = 1;
};

struct LimitHit {
  int rank = -1;
  std::string compile_id;
  CompiledFunction function;
  std::string option;  // "recompile_limit", "cache_size_limit", "accumulated_recompile_limit"
  int limit = 0;
  std::string last_reason;
  std::string evidence;
  std::int64_t count = 1;
};

enum class CacheState { kHit, kMiss, kBypass };

// An entry of a cache key: what it is of, its hash, and the beginning of its value.
struct CacheComponent {
  std::string name;
  std::string hash;
  std::string value;
};

struct CacheEvent {
  int rank = -1;
  std::string compile_id;
  CompiledFunction function;  // if known when it was logged
  std::string cache;          // "fx_graph", "aotautograd"
  CacheState state = CacheState::kMiss;
  std::string key;
  std::string reason;  // of a bypass
  // When it was logged first and last, seconds of the year; -1: the log does not say.
  double stamp = -1;
  double last_stamp = -1;
  // Of a miss, as far as logged; shared with other events.
  std::vector<std::shared_ptr<const CacheComponent>> components;
  std::int64_t count = 1;
};

// One run of the compiler over one function.
struct Compilation {
  int rank = -1;
  std::string compile_id;
  CompiledFunction function;
  bool is_backward = false;
  bool finished = false;                 // false: begun, and no end was logged
  double start = 0;                      // unix time; 0: unknown
  double seconds = -1;                   // -1: unknown
  std::map<std::string, double> phases;  // exclusive: "dynamo", "aot_autograd", "inductor", ...
  std::int64_t graph_nodes = -1;
  std::int64_t guards = -1;
  std::string fail_type;
  std::string fail_reason;
  SourceFrame fail_frame;
  std::string cudagraph_skip;
};

// A graph as it was printed, one entry a stage.
struct GraphText {
  int rank = -1;
  std::string compile_id;
  CompiledFunction function;  // if known when it was logged
  std::string stage;          // "dynamo", "aot_forward", "aot_joint", "post_grad", ...
  std::shared_ptr<const std::string> text;
};

// The scheduler's fusion of one graph.
struct FusionCount {
  int rank = -1;
  std::string compile_id;
  std::int64_t before = 0;
  std::int64_t after = 0;
  std::map<std::string, std::int64_t> refusals;  // reason, without node names -> pairs
  std::int64_t count = 1;
};

struct CompilerHint {
  int rank = -1;
  std::string compile_id;  // of the first
  std::string text;
  std::int64_t count = 1;
};

struct CollectiveSchedule {
  int rank = -1;
  std::string compile_id;
  CompiledFunction function;     // if known when it was logged
  std::vector<std::string> ops;  // in launch order
};

struct KernelMeta {
  std::string name;
  std::string outputs;  // "float16[1024, 1024][1024, 1]"
  double estimated_ns = 0;
};

// What the kernels of a graph write.
struct TensorMeta {
  int rank = -1;
  std::string compile_id;
  CompiledFunction function;  // if known when it was logged
  std::vector<KernelMeta> kernels;
};

struct ExecutionOrder {
  int rank = -1;
  std::vector<std::string> compile_ids;
};

struct CompileFacts : Facts {
  std::vector<GraphBreak> breaks;
  std::vector<Recompile> recompiles;
  std::vector<LimitHit> limit_hits;
  std::vector<CacheEvent> cache_events;
  std::vector<Compilation> compilations;
  std::vector<GraphText> graphs;
  std::vector<FusionCount> fusions;
  std::vector<CompilerHint> hints;
  std::vector<CompilerHint> cudagraph_skips;
  std::vector<CollectiveSchedule> schedules;
  std::vector<TensorMeta> tensor_metas;
  std::vector<ExecutionOrder> execution_orders;
  std::map<std::string, std::string> versions;  // "pytorch" -> "2.11.0+cu130"
  std::map<std::string, std::string>
      settings;            // "inductor_config" -> JSON, of the first compilation
  double last_stamp = -1;  // of all records, seconds of the year
  std::int64_t num_records = 0;
  std::int64_t num_torn = 0;             // lines or records that could not be understood
  std::int64_t num_graphs_left_out = 0;  // too many to keep for comparison
  bool is_structured = false;            // from TORCH_TRACE
};

// Collects what a reader finds. Equal things are kept once and counted, so that the memory needed
// grows with what is different in a log, not with its length.
class CompileLogBuilder {
 public:
  CompileLogBuilder() : facts_(std::make_unique<CompileFacts>()) {}

  CompileFacts& facts() { return *facts_; }
  std::unique_ptr<CompileFacts> finish() { return std::move(facts_); }

  void add(GraphBreak value);
  void add(Recompile value);
  void add(LimitHit value);
  void add(CacheEvent value);
  void add(FusionCount value);
  void add_hint(CompilerHint value);
  void add_cudagraph_skip(CompilerHint value);
  // `graph` without its text.
  void add_graph(GraphText graph, std::string text);
  void add(CollectiveSchedule value);

  std::shared_ptr<const CacheComponent> component(CacheComponent value);

 private:
  // True if an entry of `all` has this key: it is counted once more.
  template <typename T>
  bool count_again(std::vector<T>& all, const std::string& key);

  std::unique_ptr<CompileFacts> facts_;
  std::size_t graph_bytes_ = 0;
  std::unordered_map<std::string, std::size_t> known_;  // key -> index in its vector
  std::unordered_map<std::uint64_t, std::shared_ptr<const std::string>> texts_;
  std::unordered_map<std::string, std::shared_ptr<const CacheComponent>> components_;
};

}  // namespace monograph::diagnose
