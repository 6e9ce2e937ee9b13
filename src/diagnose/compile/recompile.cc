#include "diagnose/compile/recompile.h"

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

// Length of "3/2: " in front; 0 if there is none.
std::size_t entry_length(std::string_view text) {
  std::size_t at = 0;
  bool slash = false;
  while (at < text.size() &&
         (is_digit(text[at]) || text[at] == '/' || text[at] == '_' || text[at] == '!')) {
    slash = slash || text[at] == '/';
    ++at;
  }
  if (!slash || at + 1 > text.size() || text.substr(at, 1) != ":") return 0;
  return at + 1;
}

// "GLOBAL_STATE changed: grad_mode autocast(cpu)_enabled" names 2; 0 for any other reason.
std::size_t num_global_switches(std::string_view reason) {
  constexpr std::string_view kGlobal = "GLOBAL_STATE changed:";
  if (!reason.starts_with(kGlobal)) return 0;
  std::size_t count = 0;
  char before = ' ';
  for (const char c : reason.substr(kGlobal.size())) {
    if (c != ' ' && before == ' ') ++count;
    before = c;
  }
  return count;
}

}  // namespace

GuardFailure parse_failure(std::string_view line) {
  const std::string_view text = trim(line);
  const std::size_t length = entry_length(text);
  if (length == 0) return {"", std::string(text)};
  return {std::string(text.substr(0, length - 1)), std::string(trim(text.substr(length)))};
}

CompiledFunction parse_function_place(std::string_view text) {
  text = trim(text);
  CompiledFunction function;
  if (text.starts_with('\'')) {  // 'forward' (/job/a.py:9)
    const std::size_t close = text.find('\'', 1);
    function.name = text.substr(1, close == std::string_view::npos ? close : close - 1);
    if (close == std::string_view::npos) return function;
    text = trim(text.substr(close + 1));
    if (text.starts_with('(')) text.remove_prefix(1);
    if (text.ends_with(')')) text.remove_suffix(1);
  } else {
    const std::size_t space = text.find(' ');
    function.name = text.substr(0, space);
    if (space == std::string_view::npos) return function;
    text = trim(text.substr(space + 1));
    if (text.starts_with("in ")) text = trim(text.substr(3));
  }
  text = text.substr(0, text.find('\n'));
  text = trim(text);
  std::size_t mark = text.rfind(" line ");
  std::size_t width = 6;
  if (mark == std::string_view::npos) {
    mark = text.rfind(':');
    width = 1;
  }
  const int line = mark == std::string_view::npos ? -1 : leading_digits(text.substr(mark + width));
  function.file = line < 0 ? text : text.substr(0, mark);
  function.line = std::max(0, line);
  return function;
}

Recompile parse_recompile(std::string_view message) {
  Recompile result;
  bool in_stack = false;
  for_each_line(message, [&](std::string_view raw) {
    std::string_view line = trim(raw);
    constexpr std::string_view kStart = "Recompiling function ";
    if (line.starts_with(kStart)) {
      result.function = parse_function_place(line.substr(kStart.size()));
      return;
    }
    if (line.starts_with("triggered by") || line.empty()) return;
    if (line.starts_with("guard ") && line.ends_with("failures:")) {  // recompiles_verbose
      in_stack = false;
      return;
    }
    if (!line.starts_with("- ")) {
      if (line.starts_with("-")) return;  // an empty reason
      // A long reason goes on in the next line.
      if (!result.failures.empty() && !in_stack) {
        result.failures.back().text += " " + std::string(line);
      }
      return;
    }
    line.remove_prefix(2);
    const GuardFailure failure = parse_failure(line);
    if (!failure.entry.empty()) {
      in_stack = false;
      result.failures.push_back(failure);
    } else if (failure.text.starts_with("User stack trace")) {
      in_stack = true;
    } else if (!in_stack) {
      // Versions before the entry was logged, or a verbose list: reasons without an entry.
      result.failures.push_back(failure);
    }
  });
  return result;
}

LimitHit parse_limit_hit(std::string_view message) {
  LimitHit result;
  for_each_line(message, [&](std::string_view raw) {
    const std::string_view line = trim(raw);
    constexpr std::string_view kOption = "torch._dynamo hit config.";
    const std::size_t at = line.find(kOption);
    if (at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kOption.size());
      const std::size_t open = rest.find(" (");
      result.option = rest.substr(0, open);
      if (open != std::string_view::npos)
        result.limit = std::max(0, leading_digits(rest.substr(open + 2)));
    } else if (line.starts_with("function: ")) {
      result.function = parse_function_place(line.substr(10));
    } else if (line.starts_with("last reason: ")) {
      result.last_reason = line.substr(13);
    } else if (line.starts_with("reasons: ")) {  // 2.1
      result.last_reason = trim(line.substr(9));
    }
  });
  return result;
}

std::string next_compile_id(std::string_view compile_id) {
  const std::size_t slash = compile_id.rfind('/');
  if (slash == std::string_view::npos) return std::string(compile_id);
  return fmt::format("{}/{}", compile_id.substr(0, slash),
                     leading_digits(compile_id.substr(slash + 1)) + 1);
}

const GuardFailure* cause_of(const Recompile& recompile, const std::vector<std::string>& earlier) {
  const GuardFailure* cause = nullptr;
  std::size_t switches = 0;  // how many the cause names, if it is global state
  for (const GuardFailure& failure : recompile.failures) {
    const Guard guard = parse_guard(failure.text);
    if (guard.kind == GuardKind::kUnknown && guard.expression.empty()) continue;
    if (std::find(earlier.begin(), earlier.end(), guard.key()) != earlier.end()) continue;
    const std::size_t count = num_global_switches(failure.text);
    if (cause == nullptr) {
      if (count == 0) return &failure;
    } else if (count == 0 || count >= switches) {
      continue;
    }
    // Against the version that differs least: another may differ by more than what changed now.
    cause = &failure;
    switches = count;
  }
  if (cause != nullptr) return cause;
  return recompile.failures.empty() ? nullptr : &recompile.failures.front();
}

}  // namespace monograph::diagnose
