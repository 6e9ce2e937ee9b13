#include "diagnose/compile/torch_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "diagnose/compile/compile_log.h"
#include "diagnose/compile/graph_break.h"
#include "diagnose/compile/recompile.h"
#include "diagnose/line_scan.h"
#include "diagnose/text_log.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxBlockBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxOpenBlocks = 4096;
constexpr std::string_view kSkip = "skipping cudagraphs due to";

enum class BlockKind { kNone, kBreak, kRecompile, kLimit, kGraph, kFailure, kError };

// "torch._dynamo.exc.Unsupported: message", the end of a Python traceback
bool begins_error(std::string_view text) {
  if (!text.starts_with("torch._dynamo.exc.") && !text.starts_with("torch._inductor.exc.") &&
      !text.starts_with("torch.fx.experimental.symbolic_shapes.")) {
    return false;
  }
  const std::size_t colon = text.find(": ");
  return colon != std::string_view::npos && text.find(' ') > colon;
}

BlockKind kind_of_first_line(std::string_view message) {
  if (begins_graph_break(message)) return BlockKind::kBreak;
  if (message.starts_with("Recompiling function ")) return BlockKind::kRecompile;
  if (message.starts_with("torch._dynamo hit config.")) return BlockKind::kLimit;
  if (message.starts_with("TRACED GRAPH") || message.starts_with("AFTER POST GRAD")) {
    return BlockKind::kGraph;
  }
  if (message.starts_with("WON'T CONVERT")) return BlockKind::kFailure;
  return begins_error(message) ? BlockKind::kError : BlockKind::kNone;
}

// A message of several lines that is still being read.
struct Block {
  BlockKind kind = BlockKind::kNone;
  int rank = -1;
  std::string compile_id;
  std::string artifact;
  std::string text;      // the message's lines, joined by "\n"
  std::string evidence;  // its first line, as logged
  bool has_prefix = true;
};

bool is_number_at(std::string_view text, std::string_view word, std::int64_t& value) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return false;
  const char* begin = text.data() + at + word.size();
  const char* end = text.data() + text.size();
  std::int64_t result = 0;
  const char* digit = begin;
  while (digit < end && *digit >= '0' && *digit <= '9' && digit - begin < 15) {
    result = result * 10 + (*digit++ - '0');
  }
  if (digit == begin) return false;
  value = result;
  return true;
}

// "DEBUG: message", of a format that the user chose
std::string_view without_level_name(std::string_view text) {
  for (const std::string_view level : {"DEBUG", "INFO", "WARNING", "ERROR"}) {
    if (!text.starts_with(level)) continue;
    std::string_view rest = text.substr(level.size());
    while (rest.starts_with(':') || rest.starts_with(' ') || rest.starts_with('-')) {
      rest.remove_prefix(1);
    }
    return rest;
  }
  return text;
}

class TorchLogsReader : public LineReader {
 public:
  void read(const Line& line) override {
    if (line.prefix) {
      ++builder_.facts().num_records;
      read_message(line, *line.prefix);
    } else {
      if (find_log_head(line.text, 0) == 0 && line.text.front() != '[') {
        ++builder_.facts().num_torn;
      }
      read_bare(line);
    }
  }

  std::unique_ptr<Facts> finish() override {
    for (auto& [key, block] : blocks_) close(block);
    for (auto& [key, fusion] : fusions_) close(fusion);
    for (auto& [key, compilation] : running_) {
      builder_.facts().compilations.push_back(std::move(compilation));
    }
    const CompileFacts& facts = builder_.facts();
    const bool silent = facts.num_records == 0 && facts.breaks.empty() &&
                        facts.recompiles.empty() && facts.limit_hits.empty() &&
                        facts.compilations.empty() && facts.cudagraph_skips.empty();
    return silent ? nullptr : builder_.finish();
  }

 private:
  void read_message(const Line& line, const TorchPrefix& prefix) {
    // Built anew for each line of the log, so without fmt.
    key_ = std::to_string(line.rank);
    for (const std::string_view part :
         {prefix.process, prefix.source, prefix.compile_id, prefix.artifact}) {
      key_ += '|';
      key_ += part;
    }
    const std::string& key = key_;
    const BlockKind kind = kind_of_first_line(prefix.message);
    const bool may_belong =
        kind == BlockKind::kError || prefix.message.starts_with("Graph break: from user code");
    if (kind != BlockKind::kNone && !(may_belong && blocks_.contains(key))) {
      open(key, kind, line, prefix.compile_id, prefix.artifact, prefix.message, true);
      return;
    }
    const auto found = blocks_.find(key);
    if (found != blocks_.end()) {
      append(found->second, prefix.message);
      return;
    }
    read_single(line, prefix);
  }

  void open(const std::string& key, BlockKind kind, const Line& line, std::string_view compile_id,
            std::string_view artifact, std::string_view message, bool has_prefix) {
    if (blocks_.size() >= kMaxOpenBlocks) {
      for (auto& [other, block] : blocks_) close(block);
      blocks_.clear();
    }
    Block& block = blocks_[key];
    close(block);
    block = {kind,
             line.rank,
             std::string(without_attempt(compile_id)),
             std::string(artifact),
             std::string(message),
             fmt::format("{}: {}", line.number, line.raw.substr(0, 400)),
             has_prefix};
  }

  static void append(Block& block, std::string_view message) {
    if (block.text.size() + message.size() > kMaxBlockBytes) return;
    block.text += '\n';
    block.text += message;
  }

  // Lines without a prefix: formats that the user chose, and Python's own error messages.
  void read_bare(const Line& line) {
    const std::string key = fmt::format("{}|bare", line.rank);
    const std::string_view message = without_level_name(line.text);
    const BlockKind kind = kind_of_first_line(message);
    if (kind != BlockKind::kNone && kind != BlockKind::kGraph) {
      open(key, kind, line, "", "", message, false);
      return;
    }
    const auto found = blocks_.find(key);
    if (found != blocks_.end()) {
      if (continues(found->second, line.text)) {
        append(found->second, line.text);
        return;
      }
      close(found->second);
      blocks_.erase(found);
    }
    if (message.starts_with(kSkip)) read_cudagraph_skip(line, "", message);
  }

  // What PyTorch adds to a message: where the user's code stood, and switches to set.
  static bool continues_error(std::string_view text) {
    for (const std::string_view head :
         {"from user code:", "Set TORCH", "You can suppress", "target:", "args[", "kwargs:"}) {
      if (text.starts_with(head)) return true;
    }
    return false;
  }

  static bool continues(const Block& block, std::string_view text) {
    if (block.text.size() > 20'000) return false;
    if (text.empty()) return block.kind == BlockKind::kBreak || block.kind == BlockKind::kError;
    if (text.front() == ' ' || text.front() == '\t') return true;
    if (block.kind == BlockKind::kError) return continues_error(text);
    for (const std::string_view head :
         {"Reason: ", "Graph Break Reason:", "User code traceback:", "triggered by", "- "}) {
      if (text.starts_with(head)) return true;
    }
    // After "Encountered graph break when attempting to trace ...:" and an empty line.
    return block.kind == BlockKind::kBreak && block.text.ends_with("\n") &&
           block.text.find("Explanation:") == std::string::npos &&
           block.text.find("Graph Break Reason:") != std::string::npos;
  }

  void read_single(const Line& line, const TorchPrefix& prefix) {
    const std::string_view message = prefix.message;
    const std::string id(without_attempt(prefix.compile_id));
    if (prefix.artifact == "fusion") {
      read_fusion(line, prefix);
    } else if (message.starts_with(kSkip)) {
      read_cudagraph_skip(line, id, message);
    } else if (prefix.artifact == "perf_hints" && !message.empty() && message.front() != ' ') {
      builder_.add_hint({line.rank, id, std::string(message.substr(0, 300)), 1});
    } else if (prefix.artifact.empty()) {
      read_step(line, prefix, id);
      read_cache(line, id, prefix);
    }
  }

  void read_cudagraph_skip(const Line& line, const std::string& id, std::string_view message) {
    std::string_view reason = message.substr(std::min(kSkip.size() + 1, message.size()));
    reason = reason.substr(0, reason.find("Found from"));
    while (!reason.empty() && (reason.back() == ' ' || reason.back() == '.')) {
      reason.remove_suffix(1);
    }
    builder_.add_cudagraph_skip({line.rank, id, std::string(reason.substr(0, 300)), 1});
  }

  void read_fusion(const Line& line, const TorchPrefix& prefix) {
    const std::string key = fmt::format("{}|{}|{}", line.rank, prefix.process, prefix.compile_id);
    const std::string_view message = prefix.message;
    std::int64_t before = 0;
    std::int64_t after = 0;
    if (message.find("attempting fusion (1/") != std::string_view::npos &&
        is_number_at(message, "): ", before)) {
      auto& fusion = fusions_[key];
      close(fusion);
      fusion = {line.rank, std::string(without_attempt(prefix.compile_id)), before, before, {}, 1};
      return;
    }
    const auto found = fusions_.find(key);
    if (found == fusions_.end()) return;
    if (message.find("completed fusion round") != std::string_view::npos &&
        is_number_at(message, "nodes into ", after)) {
      found->second.after = after;
    } else if (message.starts_with("cannot fuse ")) {
      const std::size_t colon = message.find(": ");
      if (colon != std::string_view::npos) {
        std::string_view reason = message.substr(colon + 2);
        reason = reason.substr(0, reason.find_first_of("(:"));
        ++found->second.refusals[std::string(reason.substr(0, 80))];
      }
    } else if (message.find("===== fusion complete") != std::string_view::npos) {
      close(found->second);
      fusions_.erase(found);
    }
  }

  // Step 1: torchdynamo start tracing forward /job/train.py:58
  void read_step(const Line& line, const TorchPrefix& prefix, const std::string& id) {
    constexpr std::string_view kStart = "torchdynamo start tracing ";
    const std::size_t at = prefix.message.substr(0, 48).find(kStart);
    const double now = seconds_of_stamp(prefix.stamp);
    const std::string key = fmt::format("{}|{}|{}", line.rank, prefix.process, id);
    if (at != std::string_view::npos) {
      Compilation compilation;
      compilation.rank = line.rank;
      compilation.compile_id = id;
      compilation.function = parse_function_place(prefix.message.substr(at + kStart.size()));
      compilation.start = std::max(0.0, now);
      // A restart traces the same function again: one compilation.
      const auto [found, is_new] = running_.try_emplace(key, compilation);
      if (!is_new && found->second.function.line != compilation.function.line) {
        builder_.facts().compilations.push_back(std::move(found->second));
        found->second = std::move(compilation);
      }
      return;
    }
    const auto found = running_.find(key);
    if (found == running_.end() || now < 0) return;
    if (prefix.message.starts_with("Step 2: done compiler function") ||
        prefix.message.starts_with("Step 1: torchdynamo done tracing")) {
      found->second.finished = true;
      found->second.seconds = std::max(0.0, now - found->second.start);
    }
  }

  // fx graph cache miss for key f4ff...; fx graph cache hit for key ...
  void read_cache(const Line& line, const std::string& id, const TorchPrefix& prefix) {
    const std::string_view message = prefix.message;
    const std::size_t at = message.substr(0, 24).find("raph cache ");
    CacheEvent event;
    event.rank = line.rank;
    event.compile_id = id;
    if (message.starts_with("Bypassing FX Graph Cache because ")) {
      event.cache = "fx_graph";
      event.state = CacheState::kBypass;
      event.reason = message.substr(33, 200);
    } else if (at != std::string_view::npos && at < 8) {
      const std::string_view rest = message.substr(at + 11);
      if (!rest.starts_with("miss for key ") && !rest.starts_with("hit for key ")) return;
      event.cache =
          message.substr(0, at).find("AOT") != std::string_view::npos ? "aotautograd" : "fx_graph";
      event.state = rest.starts_with("hit") ? CacheState::kHit : CacheState::kMiss;
      event.key = rest.substr(rest.find("key ") + 4, 64);
    } else if (message.starts_with("AOTAutograd cache ")) {
      const std::string_view rest = message.substr(18);
      if (!rest.starts_with("miss for key ") && !rest.starts_with("hit for key ")) return;
      event.cache = "aotautograd";
      event.state = rest.starts_with("hit") ? CacheState::kHit : CacheState::kMiss;
      event.key = rest.substr(rest.find("key ") + 4, 64);
    } else {
      return;
    }
    event.stamp = seconds_of_stamp(prefix.stamp);
    builder_.facts().last_stamp = std::max(builder_.facts().last_stamp, event.stamp);
    builder_.add(std::move(event));
  }

  void close(FusionCount& fusion) {
    if (fusion.before > 0) builder_.add(std::move(fusion));
    fusion = {};
  }

  void close(Block& block) {
    switch (block.kind) {
      case BlockKind::kBreak: {
        GraphBreak result = parse_graph_break(block.text);
        result.rank = block.rank;
        result.compile_id = block.compile_id;
        result.evidence = block.evidence;
        builder_.add(std::move(result));
        break;
      }
      case BlockKind::kRecompile:
        close_recompile(block);
        break;
      case BlockKind::kLimit:
        close_limit(block);
        break;
      case BlockKind::kGraph:
        close_graph(block);
        break;
      case BlockKind::kFailure:
        close_failure(block);
        break;
      case BlockKind::kError:
        close_error(block);
        break;
      case BlockKind::kNone:
        break;
    }
    block = {};
  }

  // Of the title " ===== Forward graph 0 =====": the stage as structured logs call it; "" for the
  // graphs in between, which need not be compared.
  static std::string graph_stage(const Block& block) {
    if (block.text.starts_with("AFTER POST GRAD")) return "post_grad";
    const std::size_t at = block.text.find("===== ");
    if (at == std::string::npos) return "";
    const std::string_view title = std::string_view(block.text).substr(at + 6, 40);
    const std::pair<std::string_view, const char*> kTitles[] = {
        {"__compiled_fn", "dynamo"},
        {"Joint graph", "aot_joint"},
        {"Forward graph", "aot_forward"},
        {"Backward graph", "aot_backward"},
        {"Inference graph", "aot_inference"}};
    for (const auto& [start, stage] : kTitles) {
      if (title.starts_with(start)) return stage;
    }
    return "";
  }

  void close_graph(const Block& block) {
    const std::string stage = graph_stage(block);
    if (stage.empty()) return;
    builder_.add_graph({block.rank, block.compile_id, {}, stage, nullptr}, block.text);
  }

  void close_recompile(const Block& block) {
    Recompile result = parse_recompile(block.text);
    result.rank = block.rank;
    result.compile_id = block.compile_id;
    if (result.compile_id.empty() && !result.failures.empty()) {
      result.compile_id = next_compile_id(result.failures.front().entry);
    }
    result.evidence = block.evidence;
    builder_.add(std::move(result));
  }

  void close_limit(const Block& block) {
    LimitHit result = parse_limit_hit(block.text);
    result.rank = block.rank;
    result.compile_id = block.compile_id;
    result.evidence = block.evidence;
    builder_.add(std::move(result));
  }

  // WON'T CONVERT f /job/a.py line 3 / due to: / Traceback ... / torch._dynamo.exc.X: message
  void close_failure(const Block& block) {
    Compilation failed;
    failed.rank = block.rank;
    failed.compile_id = block.compile_id;
    failed.finished = true;
    failed.function = parse_function_place(std::string_view(block.text).substr(14));
    failed.fail_type = "compile error";
    const std::size_t error = block.text.rfind("\ntorch._");
    if (error != std::string::npos) {
      std::string_view text = std::string_view(block.text).substr(error + 1);
      text = text.substr(0, text.find('\n'));
      const std::size_t colon = text.find(": ");
      const std::size_t dot = text.substr(0, colon).rfind('.');
      failed.fail_type = text.substr(dot + 1, colon - dot - 1);
      if (colon != std::string_view::npos) failed.fail_reason = text.substr(colon + 2, 400);
    }
    const std::vector<SourceFrame> stack = parse_stack(block.text);
    for (const SourceFrame& frame : stack) {
      if (!is_library_file(frame.file)) failed.fail_frame = frame;
    }
    builder_.facts().compilations.push_back(std::move(failed));
  }

  // torch._dynamo.exc.Unsupported: message / ... / from user code: / File "a.py", line 3, in f
  void close_error(const Block& block) {
    Compilation failed;
    failed.rank = block.rank;
    failed.compile_id = block.compile_id;
    failed.finished = true;
    const std::string_view text = block.text;
    const std::size_t colon = text.find(": ");
    const std::size_t dot = text.substr(0, colon).rfind('.');
    failed.fail_type = text.substr(dot + 1, colon - dot - 1);
    const std::size_t from = text.find("from user code:");
    failed.fail_reason = trim(text.substr(colon + 2, std::min(from, colon + 402) - colon - 2));
    for (const SourceFrame& frame : parse_stack(text.substr(std::min(from, text.size())))) {
      if (!is_library_file(frame.file)) failed.fail_frame = frame;
    }
    builder_.facts().compilations.push_back(std::move(failed));
  }

  CompileLogBuilder builder_;
  std::string key_;  // of the line being read
  std::map<std::string, Block> blocks_;
  std::map<std::string, FusionCount> fusions_;
  std::map<std::string, Compilation> running_;
};

}  // namespace

std::unique_ptr<LineReader> make_torch_logs_reader() {
  return std::make_unique<TorchLogsReader>();
}

}  // namespace monograph::diagnose
