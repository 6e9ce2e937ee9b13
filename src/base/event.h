#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace monograph {

// Levels as TORCH_LOGS has them: trace (graph building), debug (hashes), info (steps, recompiles).
enum class EventLevel : uint8_t { kTrace, kDebug, kInfo, kOff };
enum class EventCategory : uint8_t { kGraph, kCompile, kRun };
inline constexpr int kNumEventCategories = 3;

// The least level that is written, by category.
using EventLevels = std::array<EventLevel, kNumEventCategories>;
// The one switch: a level for all, and levels for some: "info", "off,compile=debug",
// "graph=trace". A category that is not named has the level for all, or info. UserError names what
// is valid.
EventLevels parse_event_levels(std::string_view text);

struct EventField {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;
};

// Structured events, one JSON object a line (docs/events.md): {"time_ns": ..., "rank": 0,
// "trace_id": "...", "level": "info", "category": "run", "event": "step", ...}. A log that is off
// costs one comparison an event.
class EventLog {
 public:
  EventLog() = default;  // off
  // Appends to the file. UserError when it cannot be opened.
  EventLog(const std::string& path, const EventLevels& levels, int64_t rank = 0);

  bool is_on(EventLevel level, EventCategory category) const {
    return is_written(level, category) || (!observers_.empty() && level == EventLevel::kInfo);
  }
  // From now on also hands each event of level info to `observer`, whether it is written or not.
  using Observer = std::function<void(std::string_view event, std::span<const EventField>)>;
  void observe(Observer observer) { observers_.push_back(std::move(observer)); }
  // UserError when the line cannot be written (full disk).
  void write(EventLevel level, EventCategory category, std::string_view event,
             std::initializer_list<EventField> fields);

 private:
  bool is_written(EventLevel level, EventCategory category) const {
    return file_ != nullptr && level >= levels_[static_cast<size_t>(category)];
  }
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  EventLevels levels_ = {EventLevel::kOff, EventLevel::kOff, EventLevel::kOff};
  std::vector<Observer> observers_;
  std::string origin_;  // the fields that are the same in every line
};

}  // namespace monograph
