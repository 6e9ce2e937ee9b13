#include "diagnose/torch_prefix.h"

#include <algorithm>
#include <cctype>

#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// "0/1", "0/1_1", "!0/0/1": what may stand in brackets as a compile id.
bool is_compile_id(std::string_view text) {
  if (text.empty() || text.size() > 32 || text.find('/') == std::string_view::npos) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || c == '/' || c == '_' || c == '!' || c == '-';
  });
}

// Takes "[inner] " off the front; "" if there is none.
std::string_view take_bracket(std::string_view& text, bool (*accepts)(std::string_view)) {
  if (text.size() < 3 || text.front() != '[') return {};
  const std::size_t close = text.find(']');
  if (close == std::string_view::npos) return {};
  const std::string_view inner = text.substr(1, close - 1);
  if (!accepts(inner)) return {};
  text.remove_prefix(close + 1);
  if (text.starts_with(' ')) text.remove_prefix(1);
  return inner;
}

bool is_artifact(std::string_view text) {
  return text.starts_with("__") && text.size() < 64;
}

bool is_level_name(std::string_view text) {
  return text == "DEBUG" || text == "INFO" || text == "WARNING" || text == "ERROR" ||
         text == "CRITICAL";
}

char level_letter(std::string_view name) {
  return name == "DEBUG" ? 'V' : name.front();
}

void parse_rest(std::string_view text, TorchPrefix& prefix) {
  prefix.compile_id = take_bracket(text, is_compile_id);
  const std::string_view artifact = take_bracket(text, is_artifact);
  if (!artifact.empty()) prefix.artifact = artifact.substr(2);
  prefix.message = text;
}

// V0804 12:34:12.819000 1142857 torch/_dynamo/guards.py:2791] rest
std::optional<TorchPrefix> parse_glog(std::string_view line) {
  constexpr std::string_view kLevels = "VIWEC";
  if (line.size() < 24 || kLevels.find(line[0]) == std::string_view::npos || line[5] != ' ' ||
      line[14] != '.' || !all_digits(line.substr(1, 4))) {
    return std::nullopt;
  }
  TorchPrefix prefix;
  prefix.level = line[0];
  std::size_t at = line.find(' ', 14);
  if (at == std::string_view::npos || !all_digits(line.substr(15, at - 15))) return std::nullopt;
  prefix.stamp = line.substr(1, at - 1);
  while (at < line.size() && line[at] == ' ') ++at;
  const std::size_t digits = at;
  while (at < line.size() && is_digit(line[at])) ++at;
  // A path may begin with a digit; a process id ends at a space (glog of 2.3) or at the path.
  prefix.process = line.substr(digits, at - digits);
  while (at < line.size() && line[at] == ' ') ++at;
  const std::size_t bracket = line.find(']', at);
  if (bracket == std::string_view::npos || bracket - at > 512) return std::nullopt;
  prefix.source = line.substr(at, bracket - at);
  std::string_view rest = line.substr(bracket + 1);
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  parse_rest(rest, prefix);
  return prefix;
}

// [0/1] torch._dynamo.guards.__recompiles: [DEBUG] rest
std::optional<TorchPrefix> parse_named_logger(std::string_view line) {
  TorchPrefix prefix;
  std::string_view rest = line;
  const std::string_view id = take_bracket(rest, is_compile_id);
  if (!rest.starts_with("torch.")) return std::nullopt;
  const std::size_t colon = rest.find(": [");
  if (colon == std::string_view::npos || colon > 128) return std::nullopt;
  prefix.source = rest.substr(0, colon);
  if (prefix.source.find(' ') != std::string_view::npos) return std::nullopt;
  rest.remove_prefix(colon + 2);
  const std::string_view level = take_bracket(rest, is_level_name);
  if (level.empty()) return std::nullopt;
  prefix.level = level_letter(level);
  const std::size_t artifact = prefix.source.rfind(".__");
  if (artifact != std::string_view::npos) prefix.artifact = prefix.source.substr(artifact + 3);
  prefix.compile_id = id;
  prefix.message = rest;
  return prefix;
}

}  // namespace

std::optional<TorchPrefix> parse_torch_prefix(std::string_view line) {
  if (auto prefix = parse_glog(line)) return prefix;
  return parse_named_logger(line);
}

bool is_compiler_record(const TorchPrefix& prefix) {
  return !prefix.artifact.empty() || has(prefix.source, "torch/_dynamo/") ||
         has(prefix.source, "torch/_inductor/") || has(prefix.source, "torch/_functorch/") ||
         has(prefix.source, "torch/fx/");
}

std::string_view without_attempt(std::string_view compile_id) {
  const std::size_t slash = compile_id.rfind('/');
  return compile_id.substr(0, compile_id.find('_', slash == std::string_view::npos ? 0 : slash));
}

double seconds_of_stamp(std::string_view stamp) {
  if (stamp.size() < 13 || stamp[4] != ' ' || stamp[7] != ':' || stamp[10] != ':') return -1;
  const auto number = [&](std::size_t at) {
    if (!is_digit(stamp[at]) || !is_digit(stamp[at + 1])) return -1;
    return (stamp[at] - '0') * 10 + (stamp[at + 1] - '0');
  };
  const int month = number(0), day = number(2), hour = number(5), minute = number(8),
            second = number(11);
  if (month < 1 || month > 12 || day < 1 || hour < 0 || minute < 0 || second < 0) return -1;
  constexpr int kDaysBefore[] = {0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335};
  double fraction = 0, unit = 0.1;
  for (std::size_t at = 14; at < stamp.size() && is_digit(stamp[at]); ++at, unit /= 10) {
    fraction += (stamp[at] - '0') * unit;
  }
  return ((kDaysBefore[month - 1] + day - 1) * 24.0 + hour) * 3600 + minute * 60 + second +
         fraction;
}

bool is_torch_file(std::string_view file) {
  return file.starts_with("torch/") || file.starts_with("torch\\") || has(file, "/torch/_") ||
         has(file, "-packages/torch/") || has(file, "-packages\\torch\\") ||
         has(file, "/pytorch/torch/") || has(file, "/torch/nn/") || has(file, "/torch/utils/") ||
         has(file, "/torch/distributed/");
}

bool is_library_file(std::string_view file) {
  if (is_torch_file(file) || file.starts_with("<frozen") || file.starts_with("<string>")) {
    return true;
  }
  if (has(file, "site-packages") || has(file, "dist-packages")) return true;
  // The standard library: ".../lib/python3.12/copy.py"
  return has(file, "/lib/python3") || has(file, "\\Lib\\");
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace monograph::diagnose
