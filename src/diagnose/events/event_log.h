#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/reader.h"

// Monograph's own event logs: one JSON object a line (base/event.h).
namespace monograph::diagnose {

struct CompileEvent {
  std::string frame;  // frame_key; "" if a log has one frame only
  std::string graph_hash;
  std::int64_t nodes = 0;
  double seconds = 0;
};

struct StepEvent {
  std::int64_t step = 0;
  double seconds = 0;
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
  std::vector<StepEvent> steps;
  std::map<std::string, Incident> incidents;   // by event, frame and reason
  std::map<std::string, std::int64_t> counts;  // by event name
  std::int64_t bad_loss_step = -1;             // the first step whose loss is no number
  std::string bad_loss;
  double last_loss = 0;
  std::int64_t num_torn = 0;
};

bool accepts_event_log(std::string_view head, std::string_view path);
std::unique_ptr<Facts> read_event_log(Input& input);

// Ranks whose graphs differ, recompiles, time-outs, losses that are no numbers, slow ranks and
// steps.
void conclude_events(const FactsList& facts, Report& report);

}  // namespace monograph::diagnose
