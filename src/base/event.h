#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace monograph {

// Levels as TORCH_LOGS has them: trace (graph building), debug (hashes), info (steps, recompiles).
enum class EventLevel : uint8_t { kTrace, kDebug, kInfo, kOff };
EventLevel parse_event_level(std::string_view name);  // UserError names the valid ones

struct EventField {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;
};

// Structured events, one JSON object a line: {"time_ns": ..., "level": "info", "event": "step",
// ...}. A log that is off costs one comparison an event.
class EventLog {
 public:
  EventLog() = default;  // off
  // Appends to the file. UserError when it cannot be opened.
  EventLog(const std::string& path, EventLevel level);

  bool is_on(EventLevel level) const { return level >= level_ && level_ != EventLevel::kOff; }
  // UserError when the line cannot be written (full disk).
  void write(EventLevel level, std::string_view event, std::initializer_list<EventField> fields);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  EventLevel level_ = EventLevel::kOff;
};

}  // namespace monograph
