#include "diagnose/compile/trace_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "diagnose/compile/generated_code.h"
#include "diagnose/input.h"
#include "diagnose/line_scan.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxPayload = std::size_t{64} << 20;

struct KeyKind {
  std::string_view key;
  TraceKind kind;
  std::string_view stage;
};

// First keys of envelopes; others are not looked into. Most bytes are in the first few.
constexpr KeyKind kKeys[] = {
    {"chromium_event", TraceKind::kJson, ""},
    {"str", TraceKind::kString, ""},
    {"artifact", TraceKind::kArtifact, ""},
    {"dynamo_start", TraceKind::kStart, ""},
    {"dynamo_output_graph", TraceKind::kGraph, "dynamo"},
    {"aot_joint_graph", TraceKind::kGraph, "aot_joint"},
    {"aot_forward_graph", TraceKind::kGraph, "aot_forward"},
    {"aot_backward_graph", TraceKind::kGraph, "aot_backward"},
    {"aot_inference_graph", TraceKind::kGraph, "aot_inference"},
    {"inductor_post_grad_graph", TraceKind::kGraph, "post_grad"},
    {"inductor_output_code", TraceKind::kOutputCode, ""},
    {"compilation_metrics", TraceKind::kMetrics, ""},
    {"bwd_compilation_metrics", TraceKind::kMetrics, "backward"},
    {"aot_autograd_backward_compilation_metrics", TraceKind::kMetrics, "backward"},
};

const KeyKind* kind_of(std::string_view json) {
  if (!json.starts_with("{\"")) return nullptr;
  const std::string_view key = json.substr(2, json.find('"', 2) - 2);
  for (const KeyKind& one : kKeys) {
    if (one.key == key) return &one;
  }
  return nullptr;
}

// Graphs that newer versions log as artifacts; "" for other artifacts.
std::string_view graph_stage(std::string_view artifact) {
  if (artifact == "after_post_grad_graph") return "post_grad";
  for (const KeyKind& one : kKeys) {
    if (one.kind == TraceKind::kGraph && one.key == artifact) return one.stage;
  }
  return "";
}

bool wants_artifact(std::string_view name) {
  return name == "recompile_reasons" || name == "dynamo_graph_break_reason" ||
         name == "dynamo_error" || name == "graph_execution" || name == "torch_version" ||
         name == "inductor_collective_schedule" || name.starts_with("fx_graph_cache_") ||
         name.starts_with("aotautograd_cache_") || name.find("cudagraph") != name.npos;
}

// Artifacts whose payload is text, whatever their encoding says.
bool is_text_artifact(const TraceRecord& record) {
  return record.name == "dynamo_graph_break_reason" || record.name == "dynamo_error" ||
         record.name == "torch_version" ||
         (record.name.find("cudagraph") != std::string::npos && !record.is_json);
}

}  // namespace

bool begins_like_record(std::string_view line) {
  if (line.size() < 5 || std::string_view("VIWECF").find(line[0]) == std::string_view::npos) {
    return false;
  }
  return std::all_of(line.begin() + 1, line.begin() + 5, is_digit);
}

void TraceRecords::parse(std::string_view lines) {
  records_.clear();
  fields_used_ = 0;
  num_lines_ = 0;
  wants_payload_ = false;
  open_ = kNone;
  for_each_line(lines, [&](std::string_view line) {
    ++num_lines_;
    if (line.starts_with('\t')) {
      if (open_ != kNone) take_payload(records_[open_], line.substr(1));
      return;
    }
    if (line.empty()) return;
    const std::optional<TorchPrefix> prefix = parse_torch_prefix(line);
    const bool is_whole =
        prefix && prefix->message.starts_with('{') && prefix->message.ends_with('}');
    if (is_whole || begins_like_record(line)) {
      close();
      // Behind a torn head nobody knows whose the payload is, before it whether it was all.
      if (!is_whole && open_ != kNone) spoil(records_[open_]);
      open_ = is_whole ? records_.size() : kNone;
    }
    TraceRecord& record = records_.emplace_back();
    record.text = line;
    record.line = num_lines_;
    if (is_whole) {
      open(record, *prefix);
    } else {
      record.kind = TraceKind::kTorn;  // a line of another writer may stand inside a payload
    }
  });
  close();
}

void TraceRecords::spoil(TraceRecord& record) {
  if (record.kind != TraceKind::kGraph || !record.has_payload) return;
  record.kind = TraceKind::kOther;
  record.is_damaged = true;
}

void TraceRecords::take_payload(TraceRecord& record, std::string_view line) {
  const bool is_first = !record.has_payload;
  record.has_payload = true;
  if (!wants_payload_ || record.payload.size() + line.size() > kMaxPayload) return;
  if (!is_first) record.payload += '\n';
  record.payload += line;
}

void TraceRecords::open(TraceRecord& record, const TorchPrefix& prefix) {
  wants_payload_ = false;
  record.is_record = true;
  const KeyKind* known = kind_of(prefix.message);
  if (known == nullptr) return;
  record.kind = known->kind;
  record.key = known->key;
  record.stage = known->stage;
  record.stamp = seconds_of_stamp(prefix.stamp);
  if (record.kind == TraceKind::kJson) {
    wants_payload_ = true;
    return;
  }
  record.envelope = next_fields();
  if (!record.envelope->parse(prefix.message)) {
    record.is_damaged = true;
    record.kind = TraceKind::kOther;
    return;
  }
  read_envelope(record);
}

void TraceRecords::read_envelope(TraceRecord& record) {
  const JsonFields& envelope = *record.envelope;
  record.rank = static_cast<int>(envelope.integer("rank", -1));
  const std::int64_t frame = envelope.integer("frame_id", -1);
  const std::int64_t autograd = envelope.integer("compiled_autograd_id", -1);
  if (frame >= 0) {
    record.compile_id = fmt::format("{}{}/{}", autograd >= 0 ? fmt::format("!{}/", autograd) : "",
                                    frame, envelope.integer("frame_compile_id", 0));
  } else if (autograd >= 0) {
    record.compile_id = fmt::format("!{}", autograd);
  }
  wants_payload_ = record.kind == TraceKind::kGraph || record.kind == TraceKind::kOutputCode;
  if (record.kind != TraceKind::kArtifact) return;
  record.name = envelope.string("artifact/name");
  if (const std::string_view stage = graph_stage(record.name); !stage.empty()) {
    record.kind = TraceKind::kGraph;
    record.stage = stage;
    wants_payload_ = true;
    return;
  }
  record.is_json = envelope.string("artifact/encoding") == "json";
  wants_payload_ = wants_artifact(record.name) || record.is_json;
}

void TraceRecords::close() {
  if (open_ == kNone || !wants_payload_ || !records_[open_].has_payload) return;
  TraceRecord& record = records_[open_];
  wants_payload_ = false;
  switch (record.kind) {
    case TraceKind::kJson: {
      // Only whether it is JSON matters: the next record takes over the fields.
      record.is_damaged = !next_fields()->parse(record.payload);
      --fields_used_;
      break;
    }
    case TraceKind::kGraph:
      if (record.stage == "post_grad") record.num_nodes = count_nodes(record.payload);
      break;
    case TraceKind::kOutputCode:
      record.num_nodes = count_launches(record.payload);
      record.payload.clear();
      break;
    case TraceKind::kArtifact: {
      if (is_text_artifact(record)) break;
      JsonFields* const fields = next_fields();
      if (fields->parse(record.payload)) {
        record.payload_fields = fields;
      } else {
        record.is_damaged = record.name != "recompile_reasons";  // since 2.8 a lone string
      }
      break;
    }
    default:
      break;
  }
}

JsonFields* TraceRecords::next_fields() {
  if (fields_used_ == fields_.size()) fields_.emplace_back();
  return &fields_[fields_used_++];
}

}  // namespace monograph::diagnose
