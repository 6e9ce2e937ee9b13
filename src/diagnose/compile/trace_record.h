#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/compile/json_fields.h"
#include "diagnose/torch_prefix.h"

// The records of a TORCH_TRACE log, each for itself: all that can be done without the records
// before, so that several threads can do it.
namespace monograph::diagnose {

enum class TraceKind {
  kOther,  // not looked into
  kTorn,   // no record at all, or a damaged one
  kString,
  kStart,
  kGraph,
  kOutputCode,
  kMetrics,
  kArtifact,
  kJson,  // only checked
};

// Views lie in the lines that were parsed.
struct TraceRecord {
  TraceKind kind = TraceKind::kOther;
  std::string_view key;    // of the envelope: "compilation_metrics"
  std::string_view stage;  // of a graph; "backward" of metrics
  std::string_view text;   // the record's own line
  std::int64_t line = 0;   // its number, the first of the piece is 1
  double stamp = -1;       // seconds of the year
  int rank = -1;
  std::string compile_id;  // "2/1", "!0/2/1"; "" if there is none
  std::string name;        // of an artifact
  bool is_json = false;    // the artifact says that it is JSON
  bool has_payload = false;
  std::string payload;  // empty if nobody wants it
  // The counts that are wanted of a payload: statements of a graph, launches of generated code.
  std::int64_t num_nodes = 0;
  JsonFields* envelope = nullptr;        // of kinds that are looked into
  JsonFields* payload_fields = nullptr;  // null if the payload is no JSON, or nobody wants it

  // Whether it counts as a record of the log, damaged within or not.
  bool is_record = false;
  bool is_damaged = false;  // its envelope or its payload is no JSON
};

// "V0804 ...": a record's own line, though perhaps a torn one. Others are payload, or another
// writer's.
bool begins_like_record(std::string_view line);

// Parses pieces of a log, keeping its buffers from piece to piece.
class TraceRecords {
 public:
  // `lines` are whole and must outlive the records. Payload lines at the front, which belong to a
  // record before, are left out.
  void parse(std::string_view lines);

  std::vector<TraceRecord>& records() { return records_; }
  std::int64_t num_lines() const { return num_lines_; }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  void open(TraceRecord& record, const TorchPrefix& prefix);
  static void spoil(TraceRecord& record);
  void read_envelope(TraceRecord& record);
  void take_payload(TraceRecord& record, std::string_view line);
  void close();
  JsonFields* next_fields();

  std::vector<TraceRecord> records_;
  std::size_t open_ = kNone;  // the record whose payload is being read
  std::deque<JsonFields> fields_;
  std::size_t fields_used_ = 0;
  std::int64_t num_lines_ = 0;
  bool wants_payload_ = false;
};

}  // namespace monograph::diagnose
