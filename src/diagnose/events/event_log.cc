#include "diagnose/events/event_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "diagnose/compile/json_fields.h"
#include "diagnose/input.h"
#include "diagnose/line_scan.h"
#include "diagnose/ordered_pieces.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxSteps = 4'000'000;
constexpr std::size_t kMaxIncidents = 10'000;
constexpr std::size_t kMaxEventNames = 1000;
constexpr std::size_t kMaxNodes = 200'000;

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
  facts.steps.push_back({step, fields.number("ns", 0) * 1e-9, fields.number("tokens_per_s", 0)});
  if (facts.bad_loss_step >= 0) return;
  std::string text;
  const double loss = loss_of(fields, text);
  if (std::isfinite(loss)) {
    if (!facts.first_loss) facts.first_loss = loss;
    facts.last_loss = loss;
  } else {
    facts.bad_loss_step = step;
    facts.bad_loss = text;
  }
}

void read_incident(const JsonFields& fields, const std::string& event, std::string_view line,
                   EventFacts& facts) {
  std::string reason = fields.string("recompile_reason");
  if (reason.empty()) reason = fields.string("reason");
  const std::string frame = fields.string("frame_key");
  Incident& incident = facts.incidents[event + "|" + frame + "|" + reason];
  if (incident.count++ > 0) return;
  incident.event = event;
  incident.frame = frame;
  incident.reason = reason;
  incident.advice = fields.string("advice");
  incident.evidence = line.substr(0, 400);
}

void read_node(const JsonFields& fields, EventFacts& facts) {
  NodeEvent node;
  node.frame = fields.string("frame_key");
  node.id = fields.integer("id", 0);
  node.text = fmt::format("{} {}", fields.string("op"), fields.string("type"));
  const std::string file = fields.string("file");
  if (!file.empty()) node.place = fmt::format("{}:{}", base_name(file), fields.integer("line", 0));
  facts.nodes.push_back(std::move(node));
}

void read_line(JsonFields& fields, std::string_view line, EventFacts& facts) {
  if (line.empty()) return;
  if (!fields.parse(line) || !fields.has("event")) {
    ++facts.num_torn;
    return;
  }
  const std::string event = fields.string("event");
  ++facts.counts[event];
  const std::int64_t rank = fields.integer("rank", -1);
  if (rank >= 0) facts.rank = static_cast<int>(rank);
  if (event == "step") {
    read_step(fields, facts);
  } else if (event == "compile") {
    facts.compilations.push_back(
        {fields.string("frame_key"), fields.string("graph_hash"), fields.integer("kernels", 0),
         fields.integer("kernels_from_cache", 0), fields.number("ns", 0) * 1e-9});
  } else if (event == "node") {
    read_node(fields, facts);
  } else if (event == "validation") {
    facts.validation_loss = fields.number("loss", 0);
  } else if (is_incident(event)) {
    read_incident(fields, event, line, facts);
  }
}

template <typename T>
void append(std::vector<T>& all, std::vector<T>& more, std::size_t limit) {
  const std::size_t count = std::min(more.size(), limit - std::min(limit, all.size()));
  all.insert(all.end(), std::make_move_iterator(more.begin()),
             std::make_move_iterator(more.begin() + static_cast<std::ptrdiff_t>(count)));
}

// Adds what the next lines said.
void add(EventFacts& all, EventFacts& more) {
  append(all.steps, more.steps, kMaxSteps);
  append(all.nodes, more.nodes, kMaxNodes);
  append(all.compilations, more.compilations, kMaxIncidents);
  for (auto& [event, count] : more.counts) {
    if (all.counts.size() < kMaxEventNames || all.counts.contains(event)) {
      all.counts[event] += count;
    }
  }
  for (auto& [key, incident] : more.incidents) {
    const auto known = all.incidents.find(key);
    if (known != all.incidents.end()) {
      known->second.count += incident.count;
    } else if (all.incidents.size() < kMaxIncidents) {
      all.incidents.emplace(key, std::move(incident));
    }
  }
  if (more.rank >= 0) all.rank = more.rank;
  if (all.bad_loss_step < 0) {
    if (!all.first_loss) all.first_loss = more.first_loss;
    if (more.last_loss) all.last_loss = more.last_loss;
    all.bad_loss_step = more.bad_loss_step;
    all.bad_loss = more.bad_loss;
  }
  if (more.validation_loss) all.validation_loss = more.validation_loss;
  all.num_torn += more.num_torn;
}

}  // namespace

bool accepts_event_log(std::string_view head, std::string_view) {
  // The first lines may be torn.
  for (int i = 0; i < 20 && !head.empty(); ++i) {
    const std::string_view line = head.substr(0, head.find('\n'));
    if (line.starts_with("{\"time_ns\":") && line.find("\"event\":") != line.npos) return true;
    head.remove_prefix(std::min(head.size(), line.size() + 1));
  }
  return false;
}

std::unique_ptr<Facts> read_event_log(Input& input) {
  struct Piece {
    std::string lines;
    JsonFields fields;
    EventFacts facts;
  };
  const unsigned num_threads = input.options().num_threads;
  std::vector<Piece> pieces(num_threads);
  auto facts = std::make_unique<EventFacts>();
  PieceWork work;
  work.take = [&](unsigned slot) { return input.next_lines(pieces[slot].lines); };
  work.work = [&](unsigned slot) {
    Piece& piece = pieces[slot];
    piece.facts = EventFacts();
    for_each_line(piece.lines,
                  [&](std::string_view line) { read_line(piece.fields, line, piece.facts); });
  };
  work.stages = {[&](unsigned slot) { add(*facts, pieces[slot].facts); }};
  run_in_order(work, num_threads);
  return facts;
}

}  // namespace monograph::diagnose
