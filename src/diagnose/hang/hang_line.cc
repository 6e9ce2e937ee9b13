#include "diagnose/hang/hang_line.h"

#include <cctype>

#include "diagnose/line_scan.h"

namespace monograph::diagnose {

std::optional<int> valid_rank(std::optional<int64_t> rank) {
  if (!rank || *rank < 0 || *rank >= kMaxRank) return std::nullopt;
  return static_cast<int>(*rank);
}

int64_t glog_time(std::string_view text) {
  size_t open = text.find('[');
  if (open == std::string_view::npos || text.size() < open + 12) return 0;
  std::string_view stamp = text.substr(open + 1);
  if (std::string_view("IWEF").find(stamp[0]) == std::string_view::npos) return 0;
  size_t space = stamp.find(' ');
  if (space == std::string_view::npos || space < 4 || space > 5) return 0;
  std::optional<int64_t> date = leading_integer(stamp.substr(1));
  std::string_view clock = stamp.substr(space + 1);
  if (!date || clock.size() < 8 || clock[2] != ':' || clock[5] != ':') return 0;
  std::optional<int64_t> hour = leading_integer(clock);
  std::optional<int64_t> minute = leading_integer(clock.substr(3));
  std::optional<int64_t> second = leading_integer(clock.substr(6));
  if (!hour || !minute || !second || *date < 101 || *date > 1231) return 0;
  if (*hour < 0 || *hour > 23 || *minute < 0 || *minute > 59 || *second < 0 || *second > 60)
    return 0;
  int64_t fraction = 0;
  int64_t scale = 100'000'000;
  for (size_t i = 9; i < clock.size() && clock[8] == '.' && scale > 0; ++i, scale /= 10) {
    if (std::isdigit(static_cast<unsigned char>(clock[i])) == 0) break;
    fraction += (clock[i] - '0') * scale;
  }
  int64_t day = *date / 100 * 31 + *date % 100;
  return (((day * 24 + *hour) * 60 + *minute) * 60 + *second) * 1'000'000'000 + fraction;
}

WatchdogPrefix read_watchdog_prefix(std::string_view text) {
  WatchdogPrefix prefix;
  size_t open = text.find("[PG ");
  if (open == std::string_view::npos) open = text.find("[Rank ");
  if (open == std::string_view::npos) return prefix;
  std::string_view inside = before(text.substr(open + 1), "]");
  prefix.rank = valid_rank(integer_after(inside, "Rank "));
  std::string_view id = before(inside, " Rank ");
  if (auto guid = after(id, "PG GUID ")) {
    prefix.group = before(*guid, "(");
    if (auto described = after(*guid, "(")) prefix.description = before(*described, ")");
  } else if (auto plain = after(id, "PG ID ")) {
    prefix.group = *plain;
  } else if (auto old = after(id, "PG ")) {
    prefix.group = *old;
  }
  return prefix;
}

std::string_view field(std::string_view text, std::string_view name) {
  std::optional<std::string_view> rest = after(text, name);
  if (!rest) return {};
  int depth = 0;
  for (size_t i = 0; i < rest->size(); ++i) {
    char c = (*rest)[i];
    if (c == '[' || c == '(') ++depth;
    if ((c == ']' || c == ')') && --depth < 0) return rest->substr(0, i);
    if (c == ',' && depth == 0) return rest->substr(0, i);
  }
  return *rest;
}

int64_t count_elements(std::string_view shape) {
  if (shape.empty()) return -1;
  uint64_t count = 1;
  for (int extent : leading_ranks(shape.substr(1))) count *= static_cast<uint64_t>(extent);
  return static_cast<int64_t>(count);
}

void read_fingerprint(std::string_view text, Call& call) {
  call.op = plain_op(field(text, "OpType="));
  call.sequence = leading_integer(field(text, "SequenceNumber=")).value_or(-1);
  call.shape_in = trim(field(text, "TensorShape="));
  call.dtype = trim(before(field(text, "TensorDtypes="), " "));
  call.num_elements_in = count_elements(call.shape_in);
}

}  // namespace monograph::diagnose
