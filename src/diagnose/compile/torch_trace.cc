#include "diagnose/compile/torch_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "diagnose/compile/cache_event.h"
#include "diagnose/compile/compile_log.h"
#include "diagnose/compile/compile_metrics.h"
#include "diagnose/compile/graph_break.h"
#include "diagnose/compile/recompile.h"
#include "diagnose/compile/tensor_meta.h"
#include "diagnose/compile/trace_record.h"
#include "diagnose/input.h"
#include "diagnose/ordered_pieces.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxTensorMetas = 2000;

class TraceReader {
 public:
  // The next record; its number of line counts from the first of the file.
  void take(TraceRecord& record) {
    CompileFacts& facts = builder_.facts();
    if (record.is_record) ++facts.num_records;
    if (record.kind == TraceKind::kTorn || record.is_damaged) ++facts.num_torn;
    if (record.rank >= 0 && facts.rank < 0) facts.rank = record.rank;
    facts.last_stamp = std::max(facts.last_stamp, record.stamp);
    record_ = &record;
    if (record.kind == TraceKind::kString) {
      read_string();
    } else if (record.kind == TraceKind::kStart) {
      read_start();
    } else if (record.kind == TraceKind::kMetrics) {
      read_metrics();
    } else if (record.has_payload && !record.is_damaged) {
      use_payload();
    }
  }

  std::unique_ptr<CompileFacts> finish() {
    builder_.facts().is_structured = true;
    conclude();
    return builder_.finish();
  }

 private:
  std::string evidence() const {
    return fmt::format("{}: {}", record_->line, record_->text.substr(0, 200));
  }

  // What the compile id of this record stands for by now.
  CompiledFunction function() const { return function_of(record_->compile_id); }

  // {"str": ["/path/file.py", 3]}
  void read_string() {
    const std::vector<std::string> text = record_->envelope->strings("str");
    std::int64_t id = -1;
    record_->envelope->for_each("str", [&] { id = record_->envelope->integer("", id); });
    if (!text.empty() && id >= 0) strings_[id] = text.front();
  }

  void read_start() {
    Compilation compilation;
    compilation.rank = record_->rank;
    compilation.compile_id = record_->compile_id;
    compilation.start = std::max(0.0, record_->stamp);
    SourceFrame caller;                                      // the last of the user's frames above
    record_->envelope->for_each("dynamo_start/stack", [&] {  // the last frame is the one compiled
      if (!is_library_file(compilation.function.file)) {
        caller = {compilation.function.file, compilation.function.line, compilation.function.name,
                  ""};
      }
      compilation.function.name = record_->envelope->string("name");
      compilation.function.line = static_cast<int>(record_->envelope->integer("line", 0));
      const auto found = strings_.find(record_->envelope->integer("filename", -1));
      compilation.function.file =
          found == strings_.end() ? record_->envelope->string("filename") : found->second;
    });
    if (is_torch_file(compilation.function.file)) compilation.function.caller = caller;
    const auto [first, last] = waiting_.equal_range(record_->compile_id);
    for (auto it = first; it != last; ++it) it->second.function = compilation.function;
    for (auto it = first; it != last; ++it) builder_.add(std::move(it->second));
    waiting_.erase(record_->compile_id);
    functions_[record_->compile_id] = compilation.function;
    running_[record_->compile_id] = std::move(compilation);
  }

  void read_metrics() {
    const std::string root = std::string(record_->key);
    Compilation compilation = parse_compile_metrics(*record_->envelope, root);
    compilation.rank = record_->rank;
    compilation.is_backward = record_->stage == "backward";
    if (compilation.compile_id.empty()) compilation.compile_id = record_->compile_id;
    compilation.compile_id = without_attempt(compilation.compile_id);
    const auto found = running_.find(record_->compile_id);
    if (found != running_.end() && !compilation.is_backward) {
      if (compilation.function.name.empty() ||
          compilation.function.name == found->second.function.name) {
        compilation.function = found->second.function;
      }
      running_.erase(found);
    }
    if (compilation.function.name.empty()) compilation.function = function();
    if (is_unsupported(compilation.fail_type)) {
      take_unsupported(std::move(compilation),
                       record_->envelope->string(root + "/recompile_reason"));
      return;
    }
    read_settings(root);
    builder_.facts().compilations.push_back(std::move(compilation));
  }

  void read_settings(const std::string& root) {
    CompileFacts& facts = builder_.facts();
    for (const char* name : {"pytorch", "cuda", "triton", "python"}) {
      std::string version = record_->envelope->string(root + "/" + name + "_version");
      if (!version.empty()) facts.versions.try_emplace(name, std::move(version));
    }
    for (const char* name : {"dynamo_config", "inductor_config", "compiler_config"}) {
      if (facts.settings.contains(name)) continue;
      std::string json = record_->envelope->string(root + "/" + name);
      if (!json.empty()) facts.settings.emplace(name, std::move(json));
    }
  }

  // No failure but a fallback: a function at its recompile limit, or one that a graph break leaves
  // uncompiled.
  void take_unsupported(Compilation compilation, const std::string& recompile_reason) {
    if (is_limit(compilation)) {
      LimitHit hit = parse_limit_failure(compilation.fail_reason);
      hit.rank = record_->rank;
      hit.compile_id = record_->compile_id;
      hit.last_reason = recompile_reason.substr(0, recompile_reason.find('\n'));
      hit.function = function_of(parse_failure(hit.last_reason).entry);
      hit.evidence = fmt::format("{}: {}", record_->line, compilation.fail_reason.substr(0, 200));
      builder_.add(std::move(hit));
      return;
    }
    skipped_.push_back(compilation);
    compilation.fail_type.clear();
    compilation.fail_reason.clear();
    builder_.facts().compilations.push_back(std::move(compilation));
  }

  CompiledFunction function_of(const std::string& compile_id) const {
    const auto found = functions_.find(std::string(without_attempt(compile_id)));
    return found == functions_.end() ? CompiledFunction() : found->second;
  }

  void use_payload() {
    if (record_->kind == TraceKind::kGraph) {
      if (record_->stage == "post_grad") nodes_[record_->compile_id] = record_->num_nodes;
      builder_.add_graph(
          {record_->rank, record_->compile_id, function(), std::string(record_->stage), nullptr},
          std::move(record_->payload));
    } else if (record_->kind == TraceKind::kOutputCode) {
      const std::int64_t before = nodes_[record_->compile_id];
      const std::int64_t after = record_->num_nodes;
      if (before > 0 && after > 0) {
        builder_.add(
            FusionCount{record_->rank, record_->compile_id, std::max(before, after), after, {}, 1});
      }
      nodes_.erase(record_->compile_id);
    } else if (record_->kind == TraceKind::kArtifact) {
      use_artifact();
    }
  }

  void use_artifact() {
    if (record_->name == "dynamo_graph_break_reason") {
      GraphBreak result = parse_graph_break(record_->payload);
      result.rank = record_->rank;
      result.compile_id = record_->compile_id;
      result.evidence = evidence();
      builder_.add(std::move(result));
    } else if (record_->name == "recompile_reasons") {
      read_recompile();
    } else if (record_->name == "dynamo_error") {
      read_error();
    } else if (record_->name == "torch_version") {
      builder_.facts().versions["pytorch"] = record_->payload.substr(0, 80);
    } else if (record_->name.find("cudagraph") != std::string::npos && !record_->is_json) {
      const std::size_t at = record_->payload.find("skipping cudagraphs due to ");
      if (at != std::string::npos) {
        builder_.add_cudagraph_skip(
            {record_->rank, record_->compile_id, record_->payload.substr(at + 27, 300), 1});
      }
    } else if (record_->payload_fields == nullptr) {
      return;
    } else if (record_->name == "inductor_collective_schedule") {
      builder_.add(CollectiveSchedule{record_->rank, record_->compile_id, function(),
                                      record_->payload_fields->strings("")});
    } else if (record_->name == "inductor_runtime_and_tensor_meta") {
      TensorMeta meta = parse_tensor_meta(*record_->payload_fields);
      meta.rank = record_->rank;
      meta.compile_id = record_->compile_id;
      meta.function = function();
      if (builder_.facts().tensor_metas.size() < kMaxTensorMetas) {
        builder_.facts().tensor_metas.push_back(std::move(meta));
      }
    } else if (record_->name == "graph_execution") {
      ExecutionOrder order;
      order.rank = record_->rank;
      record_->payload_fields->for_each("graph_execution_order", [&] {
        order.compile_ids.push_back(record_->payload_fields->string("compile_id"));
      });
      builder_.facts().execution_orders.push_back(std::move(order));
    } else {
      read_cache_event();
    }
  }

  void read_recompile() {
    Recompile result;
    result.rank = record_->rank;
    result.compile_id = record_->compile_id;
    result.evidence = evidence();
    // A list, or since 2.8 a lone string.
    std::vector<std::string> reasons;
    if (record_->payload_fields != nullptr) {
      reasons = record_->payload_fields->strings("");
    } else {
      reasons.push_back(record_->payload);
    }
    for (const std::string& reason : reasons) {
      result.failures.push_back(parse_failure(reason.substr(0, reason.find("\nUser stack"))));
    }
    if (!result.failures.empty()) result.function = function_of(result.failures.front().entry);
    if (!result.function.name.empty()) {
      builder_.add(std::move(result));
      return;
    }
    // The log begins late: the function comes with the next dynamo_start of this compile id.
    waiting_.emplace(record_->compile_id, std::move(result));
  }

  void read_error() {
    Compilation failed;
    failed.rank = record_->rank;
    failed.compile_id = record_->compile_id;
    failed.finished = true;
    const auto found = running_.find(record_->compile_id);
    if (found != running_.end()) failed.function = found->second.function;
    parse_python_error(record_->payload, failed);
    if (!is_unsupported(failed.fail_type)) failures_[record_->compile_id] = failed;
  }

  void read_cache_event() {
    std::optional<CacheEvent> event =
        parse_cache_event(record_->name, *record_->payload_fields, builder_);
    if (!event) return;
    event->rank = record_->rank;
    event->compile_id = record_->compile_id;
    event->function = function();
    event->stamp = record_->stamp;
    builder_.add(std::move(*event));
  }

  void conclude() {
    for (auto& [id, recompile] : waiting_) {
      const auto found = running_.find(id);
      if (found != running_.end()) recompile.function = found->second.function;
      builder_.add(std::move(recompile));
    }
    for (const Compilation& skipped : skipped_) add_skipped(skipped);
    // Compile metrics tell of failures as well, more shortly.
    for (auto& [id, failed] : failures_) {
      bool known = false;
      for (Compilation& compilation : builder_.facts().compilations) {
        if (compilation.compile_id != id || compilation.fail_type.empty()) continue;
        known = true;
        if (compilation.fail_frame.line == 0) compilation.fail_frame = failed.fail_frame;
      }
      if (!known) builder_.facts().compilations.push_back(std::move(failed));
      running_.erase(id);
    }
    for (auto& [id, compilation] : running_) {
      builder_.facts().compilations.push_back(std::move(compilation));
    }
  }

  // Newer versions log the break as well; older ones only that compiling ended there.
  void add_skipped(const Compilation& skipped) {
    GraphBreak result = parse_graph_break("Graph break in user code at :\nGraph Break Reason: " +
                                          skipped.fail_reason);
    const bool has_frame = skipped.fail_frame.line > 0;
    result.file = has_frame ? skipped.fail_frame.file : skipped.function.file;
    result.line = has_frame ? skipped.fail_frame.line : skipped.function.line;
    result.rank = skipped.rank;
    result.compile_id = skipped.compile_id;
    result.skips_function = true;
    result.evidence = fmt::format("compiling {} [{}] ended with {}", skipped.function.name,
                                  skipped.compile_id, skipped.fail_type);
    for (GraphBreak& known : builder_.facts().breaks) {
      if (known.rank != result.rank || known.reason != result.reason) continue;
      if (has_frame && (known.file != result.file || known.line != result.line)) continue;
      known.skips_function = true;
      return;
    }
    builder_.add(std::move(result));
  }

  CompileLogBuilder builder_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::map<std::string, Compilation> running_;         // by compile id: begun, not ended
  std::map<std::string, CompiledFunction> functions_;  // by compile id, the last begun
  std::vector<Compilation> skipped_;                   // functions left uncompiled
  std::map<std::string, Compilation> failures_;        // by compile id
  std::multimap<std::string, Recompile> waiting_;      // by compile id, for their function
  std::map<std::string, std::int64_t> nodes_;          // of the last post-grad graph
  TraceRecord* record_ = nullptr;                      // the one being read
};

}  // namespace

bool accepts_torch_trace(std::string_view head, std::string_view) {
  // The first lines may be torn; a few records among them are enough.
  for (int line = 0; line < 50 && !head.empty(); ++line) {
    const std::size_t end = std::min(head.find('\n'), head.size());
    const std::optional<TorchPrefix> prefix = parse_torch_prefix(head.substr(0, end));
    if (prefix && prefix->artifact.empty() && prefix->message.starts_with("{\"")) return true;
    head.remove_prefix(std::min(head.size(), end + 1));
  }
  return false;
}

std::unique_ptr<Facts> read_torch_trace(Input& input) {
  struct Piece {
    std::string lines;
    TraceRecords records;
  };
  std::vector<Piece> pieces(input.options().num_threads);
  TraceReader reader;
  std::int64_t num_lines = 0;
  PieceWork work;
  work.take = [&](unsigned slot) {
    return input.next_lines(pieces[slot].lines, begins_like_record);
  };
  work.work = [&](unsigned slot) { pieces[slot].records.parse(pieces[slot].lines); };
  work.stages = {[&](unsigned slot) {
    for (TraceRecord& record : pieces[slot].records.records()) {
      record.line += num_lines;
      reader.take(record);
    }
    num_lines += pieces[slot].records.num_lines();
  }};
  run_in_order(work, input.options().num_threads);
  return reader.finish();
}

}  // namespace monograph::diagnose
