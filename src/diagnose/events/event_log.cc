#include "diagnose/events/event_log.h"

#include <fmt/format.h>

#include <cmath>

#include "diagnose/compile/json_fields.h"
#include "diagnose/source.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxSteps = 4'000'000;
constexpr std::size_t kMaxIncidents = 10'000;

bool is_incident(std::string_view event) {
  for (const std::string_view name :
       {"recompile", "graph_break", "compile_timeout", "fallback", "recompile_limit",
        "hash_conflict", "cache_corrupt", "rank_lost", "timeout"}) {
    if (event == name) return true;
  }
  return false;
}

// A number, or a text where base/event.cc had to write one: "nan", "inf".
double loss_of(const JsonFields& fields, std::string& text) {
  text = fields.string("loss");
  if (!text.empty()) return std::nan("");
  return fields.number("loss", 0);
}

void read_step(const JsonFields& fields, EventFacts& facts) {
  const std::int64_t step = fields.integer("step", -1);
  if (facts.steps.size() < kMaxSteps) {
    facts.steps.push_back({step, fields.number("ns", 0) * 1e-9});
  }
  std::string text;
  const double loss = loss_of(fields, text);
  if (std::isfinite(loss)) {
    facts.last_loss = loss;
  } else if (facts.bad_loss_step < 0) {
    facts.bad_loss_step = step;
    facts.bad_loss = text;
  }
}

void read_incident(const JsonFields& fields, const std::string& event, std::string_view line,
                   EventFacts& facts) {
  std::string reason = fields.string("recompile_reason");
  if (reason.empty()) reason = fields.string("reason");
  const std::string frame = fields.string("frame_key");
  const std::string key = event + "|" + frame + "|" + reason;
  if (facts.incidents.size() >= kMaxIncidents && !facts.incidents.contains(key)) return;
  Incident& incident = facts.incidents[key];
  if (incident.count++ > 0) return;
  incident.event = event;
  incident.frame = frame;
  incident.reason = reason;
  incident.advice = fields.string("advice");
  incident.evidence = line.substr(0, 400);
}

}  // namespace

bool accepts_event_log(std::string_view head, std::string_view) {
  const std::string_view line = head.substr(0, head.find('\n'));
  return line.starts_with("{\"time_ns\":") && line.find("\"event\":") != std::string_view::npos;
}

std::unique_ptr<Facts> read_event_log(Input& input) {
  auto facts = std::make_unique<EventFacts>();
  JsonFields fields;
  for (std::string_view line; input.next_line(line);) {
    if (line.empty()) continue;
    if (!fields.parse(line) || !fields.has("event")) {
      ++facts->num_torn;
      continue;
    }
    const std::string event = fields.string("event");
    if (facts->counts.size() < 1000 || facts->counts.contains(event)) ++facts->counts[event];
    const std::int64_t rank = fields.integer("rank", -1);
    if (rank >= 0) facts->rank = static_cast<int>(rank);
    if (event == "step") {
      read_step(fields, *facts);
    } else if (event == "compile" && facts->compilations.size() < kMaxIncidents) {
      facts->compilations.push_back({fields.string("frame_key"), fields.string("graph_hash"),
                                     fields.integer("nodes", 0), fields.number("ns", 0) * 1e-9});
    } else if (is_incident(event)) {
      read_incident(fields, event, line, *facts);
    }
  }
  return facts;
}

}  // namespace monograph::diagnose
