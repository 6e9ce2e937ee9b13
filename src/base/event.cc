#include "base/event.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace monograph {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"trace", "debug", "info", "off"};

std::string quoted(std::string_view text) {
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
  if (const auto* text = std::get_if<std::string_view>(&value)) return quoted(*text);
  const double real = std::get<double>(value);
  return std::isfinite(real) ? fmt::format("{}", real) : quoted(fmt::format("{}", real));
}

}  // namespace

EventLevel parse_event_level(std::string_view name) {
  for (size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i] == name) return static_cast<EventLevel>(i);
  }
  throw_user_error("event level '{}': use trace, debug, info or off", name);
}

EventLog::EventLog(const std::string& path, EventLevel level)
    : path_(path), file_(std::fopen(path.c_str(), "a")), level_(level) {
  if (!file_) {
    throw_user_error("cannot write events to '{}': {}", path, std::strerror(errno));
  }
}

void EventLog::write(EventLevel level, std::string_view event,
                     std::initializer_list<EventField> fields) {
  if (!is_on(level)) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string line = fmt::format(R"({{"time_ns":{},"level":"{}","event":{})",
                                 std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                                 kLevels[static_cast<size_t>(level)], quoted(event));
  for (const EventField& field : fields) {
    line += fmt::format(",{}:{}", quoted(field.name), value_text(field.value));
  }
  line += "}\n";
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
  if (!written || std::fflush(file_.get()) != 0) {
    throw_user_error("cannot write events to '{}': {}", path_, std::strerror(errno));
  }
}

}  // namespace monograph
