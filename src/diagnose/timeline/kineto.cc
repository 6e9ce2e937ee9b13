#include "diagnose/timeline/kineto.h"

#include <simdjson.h>

#include <utility>

#include "base/error.h"
#include "diagnose/ordered_pieces.h"
#include "diagnose/timeline/event_splitter.h"
#include "diagnose/timeline/kineto_event.h"

namespace monograph::diagnose {
namespace {

// Some elements of the trace, and members of its root that came between them.
struct TracePiece {
  struct Range {
    size_t begin = 0;
    size_t size = 0;
  };

  std::string text;
  std::vector<Range> elements;
  std::vector<std::pair<std::string, std::string>> members;
  std::vector<KinetoEvent> events;  // those of the elements that matter, or are damaged

  void clear() {
    text.clear();
    elements.clear();
    members.clear();
    events.clear();
  }

  void parse() {
    for (const Range& range : elements) {
      KinetoEvent event =
          parse_kineto_event(std::string_view(text).substr(range.begin, range.size));
      if (event.work != KinetoWork::kNone || event.is_damaged) events.push_back(std::move(event));
    }
  }
};

class KinetoReader {
 public:
  explicit KinetoReader(std::string source) {
    builder_.timeline.source = std::move(source);
    builder_.timeline.format = "Kineto";
  }

  void take(TracePiece& piece) {
    builder_.timeline.num_events += static_cast<int64_t>(piece.elements.size());
    for (KinetoEvent& event : piece.events) on_event(event);
    for (const auto& [key, value] : piece.members) on_member(key, value);
  }

  Timeline finish(bool is_truncated) {
    builder_.timeline.is_truncated = is_truncated;
    if (builder_.timeline.num_events == 0) {
      throw_user_error(
          "{}: no trace events in this file; give the JSON that torch.profiler exported",
          builder_.timeline.source);
    }
    join_collectives();
    return builder_.finish();
  }

 private:
  void on_event(KinetoEvent& event) {
    switch (event.work) {
      case KinetoWork::kNone:
        ++builder_.timeline.num_skipped;
        return;
      case KinetoWork::kLaunch:
        if (event.correlation != 0) builder_.add_launch(event.correlation, event.start_ns);
        return;
      case KinetoWork::kAnnotation:
        builder_.add_step(event.name, event.start_ns, event.start_ns + event.duration_ns);
        return;
      case KinetoWork::kCommParams:
        if (event.has_collective && event.external_id >= 0) {
          params_.try_emplace(event.external_id, std::move(event.collective));
        }
        return;
      default:
        on_device_work(event);
    }
  }

  void on_device_work(KinetoEvent& event) {
    Timeline& timeline = builder_.timeline;
    Span span;
    span.start_ns = event.start_ns;
    span.end_ns = event.start_ns + event.duration_ns;
    span.name = name_id(event.name);
    span.stream = static_cast<int32_t>(event.stream);
    span.device = static_cast<int16_t>(event.device);
    span.activity = event.activity;
    if (span.activity == Activity::kCollective) {
      span.detail = static_cast<int32_t>(timeline.collectives.size());
      if (!event.has_collective && event.external_id >= 0)
        wanting_.emplace_back(span.detail, event.external_id);
      timeline.collectives.push_back(std::move(event.collective));
    } else if (span.activity == Activity::kCopy) {
      span.detail = static_cast<int32_t>(timeline.copies.size());
      timeline.copies.push_back(
          {event.num_bytes, event.name.find("Pageable") != std::string_view::npos});
    }
    builder_.add(span, event.correlation);
  }

  uint32_t name_id(std::string_view name) {
    return name.find('\\') == std::string_view::npos ? builder_.name_id(name)
                                                     : builder_.name_id(unescape(name));
  }

  void on_member(std::string_view key, std::string_view value) {
    if (key == "baseTimeNanoseconds") builder_.timeline.base_ns = leading_number(value).value_or(0);
    if (key != "distributedInfo") return;
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    if (parser.parse(value.data(), value.size()).get(root) != simdjson::SUCCESS) return;
    int64_t number = 0;
    if (root["rank"].get(number) == simdjson::SUCCESS)
      builder_.timeline.rank = static_cast<int>(number);
    if (root["world_size"].get(number) == simdjson::SUCCESS) {
      builder_.timeline.world_size = static_cast<int>(number);
    }
  }

  void join_collectives() {
    for (auto [index, external_id] : wanting_) {
      auto found = params_.find(external_id);
      if (found != params_.end())
        builder_.timeline.collectives[static_cast<size_t>(index)] = found->second;
    }
  }

  TimelineBuilder builder_;
  std::unordered_map<int64_t, CollectiveInfo> params_;  // by external id
  std::vector<std::pair<int32_t, int64_t>> wanting_;    // collective, its external id
};

}  // namespace

Timeline read_kineto(std::string source, const ReadBytes& read, const ReadOptions& options) {
  std::vector<TracePiece> pieces(options.num_threads);
  std::string buffer(options.piece_bytes, '\0');
  KinetoReader reader(std::move(source));
  EventSplitter splitter;
  PieceWork work;
  // Splitting needs the text before, parsing does not.
  work.take = [&](unsigned slot) {
    TracePiece& piece = pieces[slot];
    piece.clear();
    splitter.event = [&piece](std::string_view text) {
      piece.elements.push_back({piece.text.size(), text.size()});
      piece.text += text;
    };
    splitter.member = [&piece](std::string_view key, std::string_view value) {
      if (key == "distributedInfo" || key == "baseTimeNanoseconds")
        piece.members.emplace_back(key, value);
    };
    const size_t count = read(buffer.data(), buffer.size());
    splitter.feed(std::string_view(buffer).substr(0, count));
    return count > 0;
  };
  work.work = [&](unsigned slot) { pieces[slot].parse(); };
  work.stages = {[&](unsigned slot) { reader.take(pieces[slot]); }};
  run_in_order(work, options.num_threads);
  return reader.finish(!splitter.finish());
}

bool looks_like_kineto(std::string_view head) {
  size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start == std::string_view::npos || (head[start] != '{' && head[start] != '[')) return false;
  auto has = [&](std::string_view text) { return head.find(text) != std::string_view::npos; };
  return has("\"traceEvents\"") || (has("\"schemaVersion\"") && has("\"deviceProperties\"")) ||
         (has("\"schemaVersion\"") && has("\"distributedInfo\"")) ||
         (has("\"ph\"") && has("\"ts\""));
}

}  // namespace monograph::diagnose
