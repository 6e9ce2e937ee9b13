#include "base/event.h"

#include <fmt/ranges.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"

namespace monograph {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"trace", "debug", "info", "off"};
constexpr std::array<std::string_view, kNumEventCategories> kCategories = {"graph", "compile",
                                                                           "run"};

template <size_t N>
size_t index_of(const std::array<std::string_view, N>& names, std::string_view name,
                std::string_view what) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return i;
  }
  throw_user_error("event {} '{}': use one of {}", what, name, fmt::join(names, ", "));
}

EventLevel parse_level(std::string_view name) {
  return static_cast<EventLevel>(index_of(kLevels, name, "level"));
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string value_text(const std::variant<int64_t, double, std::string_view>& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string_view>(&value)) return in_quotes(*text);
  const double real = std::get<double>(value);
  return std::isfinite(real) ? fmt::format("{}", real) : in_quotes(fmt::format("{}", real));
}

}  // namespace

EventLevels parse_event_levels(std::string_view text) {
  EventLevels levels;
  levels.fill(EventLevel::kInfo);
  // Levels for all first, wherever they stand.
  for (const bool is_for_all : {true, false}) {
    for (std::string_view rest = text; !rest.empty();) {
      const size_t comma = rest.find(',');
      const std::string_view part = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
      const size_t equals = part.find('=');
      if ((equals == std::string_view::npos) != is_for_all) continue;
      if (is_for_all) {
        levels.fill(parse_level(part));
      } else {
        levels[index_of(kCategories, part.substr(0, equals), "category")] =
            parse_level(part.substr(equals + 1));
      }
    }
  }
  return levels;
}

EventLog::EventLog(const std::string& path, const EventLevels& levels, int64_t rank)
    : path_(path), file_(std::fopen(path.c_str(), "a")), levels_(levels) {
  if (!file_) {
    throw_user_error("cannot write events to '{}': {}", path, std::strerror(errno));
  }
  std::random_device random;
  origin_ = fmt::format(R"("rank":{},"trace_id":"{:08x}{:08x}")", rank, random(), random());
}

void EventLog::write(EventLevel level, EventCategory category, std::string_view event,
                     std::initializer_list<EventField> fields) {
  if (level == EventLevel::kInfo) {
    for (const Observer& observer : observers_) observer(event, {fields.begin(), fields.size()});
  }
  if (!is_written(level, category)) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string line = fmt::format(R"({{"time_ns":{},{},"level":"{}","category":"{}","event":{})",
                                 std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                                 origin_, kLevels[static_cast<size_t>(level)],
                                 kCategories[static_cast<size_t>(category)], in_quotes(event));
  for (const EventField& field : fields) {
    line += fmt::format(",{}:{}", in_quotes(field.name), value_text(field.value));
  }
  line += "}\n";
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
  if (!written || std::fflush(file_.get()) != 0) {
    throw_user_error("cannot write events to '{}': {}", path_, std::strerror(errno));
  }
}

}  // namespace monograph
