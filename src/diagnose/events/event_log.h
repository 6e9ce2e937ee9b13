#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/reader.h"

// Monograph's own event logs: one JSON object a line (base/event.h).
namespace monograph::diagnose {

struct CompileEvent {
  std::string frame;  // frame_key; "" if a log has one frame only
  std::string graph_hash;
  std::int64_t kernels = 0;
  std::int64_t kernels_from_cache = 0;
  double seconds = 0;
};

// A node of a traced graph, of logs with graph=trace.
struct NodeEvent {
  std::string frame;
  std::int64_t id = 0;
  std::string text;   // "mm f32[32,128]"
  std::string place;  // "model.cc:12"; "" if unknown
};

struct StepEvent {
  std::int64_t step = 0;
  double seconds = 0;
  double tokens_per_s = 0;
};

// Events that tell of trouble, counted by what they say.
struct Incident {
  std::string event;   // "recompile", "graph_break", "compile_timeout", "fallback", ...
  std::string frame;   // frame_key
  std::string reason;  // recompile_reason or reason
  std::string advice;
  std::string evidence;  // the first line
  std::int64_t count = 0;
};

struct EventFacts : Facts {
  std::vector<CompileEvent> compilations;
  std::vector<NodeEvent> nodes;
  std::vector<StepEvent> steps;
  std::map<std::string, Incident> incidents;   // by event, frame and reason
  std::map<std::string, std::int64_t> counts;  // by event name
  std::int64_t bad_loss_step = -1;             // the first step whose loss is no number
  std::string bad_loss;
  std::optional<double> first_loss;
  std::optional<double> last_loss;        // before it
  std::optional<double> validation_loss;  // the last
  std::int64_t num_torn = 0;
};

bool accepts_event_log(std::string_view head, std::string_view path);
std::unique_ptr<Facts> read_event_log(Input& input);

// Ranks whose graphs differ, recompiles, time-outs, losses that are no numbers, slow ranks and
// steps.
void conclude_events(const FactsList& facts, Report& report);

}  // namespace monograph::diagnose
