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
#include "diagnose/compile/generated_code.h"
#include "diagnose/compile/graph_break.h"
#include "diagnose/compile/json_fields.h"
#include "diagnose/compile/recompile.h"
#include "diagnose/compile/tensor_meta.h"
#include "diagnose/compile/torch_prefix.h"
#include "diagnose/source.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxPayload = std::size_t{64} << 20;
constexpr std::size_t kMaxTensorMetas = 2000;

enum class Kind { kOther, kString, kStart, kGraph, kOutputCode, kMetrics, kArtifact, kJson };

struct KeyKind {
  std::string_view key;
  Kind kind;
  std::string_view stage;
};

// First keys of envelopes; others are not looked into. Most bytes are in the first few.
constexpr KeyKind kKeys[] = {
    {"chromium_event", Kind::kJson, ""},
    {"str", Kind::kString, ""},
    {"artifact", Kind::kArtifact, ""},
    {"dynamo_start", Kind::kStart, ""},
    {"dynamo_output_graph", Kind::kGraph, "dynamo"},
    {"aot_joint_graph", Kind::kGraph, "aot_joint"},
    {"aot_forward_graph", Kind::kGraph, "aot_forward"},
    {"aot_backward_graph", Kind::kGraph, "aot_backward"},
    {"aot_inference_graph", Kind::kGraph, "aot_inference"},
    {"inductor_post_grad_graph", Kind::kGraph, "post_grad"},
    {"inductor_output_code", Kind::kOutputCode, ""},
    {"compilation_metrics", Kind::kMetrics, ""},
    {"bwd_compilation_metrics", Kind::kMetrics, "backward"},
    {"aot_autograd_backward_compilation_metrics", Kind::kMetrics, "backward"},
};

const KeyKind* kind_of(std::string_view json) {
  if (!json.starts_with("{\"")) return nullptr;
  const std::string_view key = json.substr(2, json.find('"', 2) - 2);
  for (const KeyKind& one : kKeys) {
    if (one.key == key) return &one;
  }
  return nullptr;
}

class TraceReader {
 public:
  std::unique_ptr<CompileFacts> read(Input& input) {
    builder_.facts().is_structured = true;
    for (std::string_view line; input.next_line(line);) {
      ++line_number_;
      if (line.starts_with('\t')) {
        take_payload(line.substr(1));
      } else {
        close_record();
        open_record(line);
      }
    }
    close_record();
    finish();
    return builder_.finish();
  }

 private:
  void take_payload(std::string_view line) {
    has_payload_ = true;
    if (!wants_payload_ || payload_.size() + line.size() > kMaxPayload) return;
    if (!payload_.empty() || !is_first_payload_line_) payload_ += '\n';
    is_first_payload_line_ = false;
    payload_ += line;
  }

  void open_record(std::string_view line) {
    if (line.empty()) return;
    const std::optional<TorchPrefix> prefix = parse_torch_prefix(line);
    if (!prefix || !prefix->message.starts_with('{') || !prefix->message.ends_with('}')) {
      ++builder_.facts().num_torn;
      return;
    }
    ++builder_.facts().num_records;
    const KeyKind* known = kind_of(prefix->message);
    if (known == nullptr) return;
    kind_ = known->kind;
    stage_ = known->stage;
    stamp_ = seconds_of_stamp(prefix->stamp);
    if (kind_ == Kind::kJson) {  // only checked for validity
      wants_payload_ = true;
      return;
    }
    if (!envelope_.parse(prefix->message)) {
      ++builder_.facts().num_torn;
      kind_ = Kind::kOther;
      return;
    }
    read_envelope(line);
  }

  void read_envelope(std::string_view line) {
    rank_ = static_cast<int>(envelope_.integer("rank", -1));
    if (rank_ >= 0 && builder_.facts().rank < 0) builder_.facts().rank = rank_;
    const std::int64_t frame = envelope_.integer("frame_id", -1);
    const std::int64_t autograd = envelope_.integer("compiled_autograd_id", -1);
    compile_id_.clear();
    if (frame >= 0) {
      compile_id_ = fmt::format("{}{}/{}", autograd >= 0 ? fmt::format("!{}/", autograd) : "",
                                frame, envelope_.integer("frame_compile_id", 0));
    } else if (autograd >= 0) {
      compile_id_ = fmt::format("!{}", autograd);
    }
    switch (kind_) {
      case Kind::kString:
        read_string();
        break;
      case Kind::kStart:
        read_start();
        break;
      case Kind::kMetrics:
        read_metrics();
        break;
      case Kind::kGraph:
      case Kind::kOutputCode:
        wants_payload_ = true;
        break;
      case Kind::kArtifact:
        name_ = envelope_.string("artifact/name");
        if (is_graph_artifact()) break;
        is_json_ = envelope_.string("artifact/encoding") == "json";
        wants_payload_ = wants_artifact(name_) || is_json_;
        if (wants_payload_) evidence_ = fmt::format("{}: {}", line_number_, line.substr(0, 200));
        break;
      default:
        break;
    }
  }

  // What the compile id of this record stands for by now.
  CompiledFunction function() const { return function_of(compile_id_); }

  // Graphs that newer versions log as artifacts.
  bool is_graph_artifact() {
    std::string_view stage = name_ == "after_post_grad_graph" ? "post_grad" : "";
    for (const KeyKind& one : kKeys) {
      if (one.kind == Kind::kGraph && one.key == name_) stage = one.stage;
    }
    if (stage.empty()) return false;
    kind_ = Kind::kGraph;
    stage_ = stage;
    wants_payload_ = true;
    return true;
  }

  static bool wants_artifact(std::string_view name) {
    return name == "recompile_reasons" || name == "dynamo_graph_break_reason" ||
           name == "dynamo_error" || name == "graph_execution" || name == "torch_version" ||
           name == "inductor_collective_schedule" || name.starts_with("fx_graph_cache_") ||
           name.starts_with("aotautograd_cache_") || name.find("cudagraph") != name.npos;
  }

  // {"str": ["/path/file.py", 3]}
  void read_string() {
    const std::vector<std::string> text = envelope_.strings("str");
    std::int64_t id = -1;
    envelope_.for_each("str", [&] { id = envelope_.integer("", id); });
    if (!text.empty() && id >= 0) strings_[id] = text.front();
  }

  void read_start() {
    Compilation compilation;
    compilation.rank = rank_;
    compilation.compile_id = compile_id_;
    compilation.start = std::max(0.0, stamp_);
    SourceFrame caller;                             // the last of the user's frames above
    envelope_.for_each("dynamo_start/stack", [&] {  // the last frame is the one compiled
      if (!is_library_file(compilation.function.file)) {
        caller = {compilation.function.file, compilation.function.line, compilation.function.name,
                  ""};
      }
      compilation.function.name = envelope_.string("name");
      compilation.function.line = static_cast<int>(envelope_.integer("line", 0));
      const auto found = strings_.find(envelope_.integer("filename", -1));
      compilation.function.file =
          found == strings_.end() ? envelope_.string("filename") : found->second;
    });
    if (is_torch_file(compilation.function.file)) compilation.function.caller = caller;
    const auto [first, last] = waiting_.equal_range(compile_id_);
    for (auto it = first; it != last; ++it) it->second.function = compilation.function;
    for (auto it = first; it != last; ++it) builder_.add(std::move(it->second));
    waiting_.erase(compile_id_);
    functions_[compile_id_] = compilation.function;
    running_[compile_id_] = std::move(compilation);
  }

  void read_metrics() {
    const std::string root = std::string(kind_key());
    Compilation compilation = parse_compile_metrics(envelope_, root);
    compilation.rank = rank_;
    compilation.is_backward = stage_ == "backward";
    if (compilation.compile_id.empty()) compilation.compile_id = compile_id_;
    compilation.compile_id = without_attempt(compilation.compile_id);
    const auto found = running_.find(compile_id_);
    if (found != running_.end() && !compilation.is_backward) {
      if (compilation.function.name.empty() ||
          compilation.function.name == found->second.function.name) {
        compilation.function = found->second.function;
      }
      running_.erase(found);
    }
    if (compilation.function.name.empty()) compilation.function = function();
    if (is_unsupported(compilation.fail_type)) {
      take_unsupported(std::move(compilation), envelope_.string(root + "/recompile_reason"));
      return;
    }
    read_settings(root);
    builder_.facts().compilations.push_back(std::move(compilation));
  }

  void read_settings(const std::string& root) {
    CompileFacts& facts = builder_.facts();
    for (const char* name : {"pytorch", "cuda", "triton", "python"}) {
      std::string version = envelope_.string(root + "/" + name + "_version");
      if (!version.empty()) facts.versions.try_emplace(name, std::move(version));
    }
    for (const char* name : {"dynamo_config", "inductor_config", "compiler_config"}) {
      if (facts.settings.contains(name)) continue;
      std::string json = envelope_.string(root + "/" + name);
      if (!json.empty()) facts.settings.emplace(name, std::move(json));
    }
  }

  // No failure but a fallback: a function at its recompile limit, or one that a graph break leaves
  // uncompiled.
  void take_unsupported(Compilation compilation, const std::string& recompile_reason) {
    if (is_limit(compilation)) {
      LimitHit hit = parse_limit_failure(compilation.fail_reason);
      hit.rank = rank_;
      hit.compile_id = compile_id_;
      hit.last_reason = recompile_reason.substr(0, recompile_reason.find('\n'));
      hit.function = function_of(parse_failure(hit.last_reason).entry);
      hit.evidence = fmt::format("{}: {}", line_number_, compilation.fail_reason.substr(0, 200));
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

  std::string_view kind_key() const {
    for (const KeyKind& one : kKeys) {
      if (one.kind == Kind::kMetrics && envelope_.has(one.key)) return one.key;
    }
    return "compilation_metrics";
  }

  void close_record() {
    if (wants_payload_ && has_payload_) use_payload();
    kind_ = Kind::kOther;
    wants_payload_ = has_payload_ = is_json_ = false;
    is_first_payload_line_ = true;
    payload_.clear();
    name_.clear();
  }

  void use_payload() {
    if (kind_ == Kind::kJson) {
      if (!payload_fields_.parse(payload_)) ++builder_.facts().num_torn;
    } else if (kind_ == Kind::kGraph) {
      builder_.add_graph({rank_, compile_id_, function(), std::string(stage_), nullptr}, payload_);
      if (stage_ == "post_grad") nodes_[compile_id_] = count_nodes(payload_);
    } else if (kind_ == Kind::kOutputCode) {
      const std::int64_t before = nodes_[compile_id_];
      const std::int64_t after = count_launches(payload_);
      if (before > 0 && after > 0) {
        builder_.add(FusionCount{rank_, compile_id_, std::max(before, after), after, {}, 1});
      }
      nodes_.erase(compile_id_);
    } else if (kind_ == Kind::kArtifact) {
      use_artifact();
    }
  }

  void use_artifact() {
    if (name_ == "dynamo_graph_break_reason") {
      GraphBreak result = parse_graph_break(payload_);
      result.rank = rank_;
      result.compile_id = compile_id_;
      result.evidence = evidence_;
      builder_.add(std::move(result));
    } else if (name_ == "recompile_reasons") {
      read_recompile();
    } else if (name_ == "dynamo_error") {
      read_error();
    } else if (name_ == "torch_version") {
      builder_.facts().versions["pytorch"] = payload_.substr(0, 80);
    } else if (name_.find("cudagraph") != std::string::npos && !is_json_) {
      const std::size_t at = payload_.find("skipping cudagraphs due to ");
      if (at != std::string::npos) {
        builder_.add_cudagraph_skip({rank_, compile_id_, payload_.substr(at + 27, 300), 1});
      }
    } else if (!payload_fields_.parse(payload_)) {
      ++builder_.facts().num_torn;
    } else if (name_ == "inductor_collective_schedule") {
      builder_.add(CollectiveSchedule{rank_, compile_id_, function(), payload_fields_.strings("")});
    } else if (name_ == "inductor_runtime_and_tensor_meta") {
      TensorMeta meta = parse_tensor_meta(payload_fields_);
      meta.rank = rank_;
      meta.compile_id = compile_id_;
      meta.function = function();
      if (builder_.facts().tensor_metas.size() < kMaxTensorMetas) {
        builder_.facts().tensor_metas.push_back(std::move(meta));
      }
    } else if (name_ == "graph_execution") {
      ExecutionOrder order;
      order.rank = rank_;
      payload_fields_.for_each("graph_execution_order", [&] {
        order.compile_ids.push_back(payload_fields_.string("compile_id"));
      });
      builder_.facts().execution_orders.push_back(std::move(order));
    } else {
      read_cache_event();
    }
  }

  void read_recompile() {
    Recompile result;
    result.rank = rank_;
    result.compile_id = compile_id_;
    result.evidence = evidence_;
    // A list, or since 2.8 a lone string.
    std::vector<std::string> reasons;
    if (payload_fields_.parse(payload_)) {
      reasons = payload_fields_.strings("");
    } else {
      reasons.push_back(payload_);
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
    waiting_.emplace(compile_id_, std::move(result));
  }

  void read_error() {
    Compilation failed;
    failed.rank = rank_;
    failed.compile_id = compile_id_;
    failed.finished = true;
    const auto found = running_.find(compile_id_);
    if (found != running_.end()) failed.function = found->second.function;
    parse_python_error(payload_, failed);
    if (!is_unsupported(failed.fail_type)) failures_[compile_id_] = failed;
  }

  void read_cache_event() {
    std::optional<CacheEvent> event = parse_cache_event(name_, payload_fields_, builder_);
    if (!event) return;
    event->rank = rank_;
    event->compile_id = compile_id_;
    event->function = function();
    builder_.add(std::move(*event));
  }

  void finish() {
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
  JsonFields envelope_;
  JsonFields payload_fields_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::map<std::string, Compilation> running_;         // by compile id: begun, not ended
  std::map<std::string, CompiledFunction> functions_;  // by compile id, the last begun
  std::vector<Compilation> skipped_;                   // functions left uncompiled
  std::map<std::string, Compilation> failures_;        // by compile id
  std::multimap<std::string, Recompile> waiting_;      // by compile id, for their function
  std::map<std::string, std::int64_t> nodes_;          // of the last post-grad graph
  std::int64_t line_number_ = 0;

  // The record being read.
  Kind kind_ = Kind::kOther;
  std::string_view stage_;
  std::string name_;
  std::string compile_id_;
  std::string evidence_;
  std::string payload_;
  double stamp_ = -1;
  int rank_ = -1;
  bool wants_payload_ = false;
  bool has_payload_ = false;
  bool is_json_ = false;
  bool is_first_payload_line_ = true;
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
  return TraceReader().read(input);
}

}  // namespace monograph::diagnose
