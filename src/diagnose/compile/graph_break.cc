#include "diagnose/compile/graph_break.h"

#include <algorithm>
#include <cctype>

#include "diagnose/line_scan.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

// "F:L" at the end of a headline
void parse_place(std::string_view text, GraphBreak& result) {
  text = trim(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return;
  int line = 0;
  for (const char c : text.substr(colon + 1)) {
    if (!std::isdigit(static_cast<unsigned char>(c)) || line > 100'000'000) return;
    line = line * 10 + (c - '0');
  }
  result.file = text.substr(0, colon);
  result.line = line;
}

bool starts_explanation(std::string_view line) {
  const std::string_view text = trim(line);
  return text.starts_with("Explanation:") || text.starts_with("Hint:") ||
         text.starts_with("Developer debug context:") ||
         text.starts_with("For more details about this graph break") ||
         text.starts_with("User code traceback:") || text.starts_with("Traceback (most recent");
}

// The headlines of 2.7 and later that only say where tracing stood; the reason follows.
bool is_preamble(std::string_view reason) {
  return reason.starts_with("Encountered graph break when attempting") ||
         reason.starts_with("Failed to handle graph break gracefully") || reason.empty();
}

void add_detail(std::string_view text, GraphBreak& result) {
  if (text.starts_with("Explanation:")) {
    if (!result.explanation.empty()) result.explanation += ' ';
    result.explanation += trim(text.substr(12));
  } else if (text.starts_with("Hint:")) {
    result.hints.emplace_back(trim(text.substr(5)));
  } else if (text.starts_with("Developer debug context:")) {
    if (result.context.empty()) result.context = trim(text.substr(24));
  }
}

// "Graph break: REASON from user code at:" (2.2 to 2.4) and the warning about Tensor.item().
void parse_short_headline(std::string_view headline, GraphBreak& result) {
  std::string_view text = headline;
  if (text.starts_with("Graph break from `")) {
    const std::size_t close = text.find('`', 18);
    result.reason = std::string(text.substr(18, close - 18)) + " call";
    return;
  }
  text = text.substr(std::string_view("Graph break:").size());
  const std::size_t from = text.find("from user code at");  // 2.1: the place follows in the line
  result.reason = plain_reason(trim(text.substr(0, from)));
}

}  // namespace

bool begins_graph_break(std::string_view message) {
  return message.starts_with("Graph break in user code at ") ||
         message.starts_with("Graph break (") || message.starts_with("Graph break: ") ||
         message.starts_with("Graph break from `");
}

std::string plain_reason(std::string_view reason) {
  std::string text(reason);
  for (const std::string_view prefix : {"Unsupported: ", "Graph break: ", "Graph Break Reason: "}) {
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  }
  constexpr std::string_view kClass = "<class '";
  for (std::size_t at = text.find(kClass); at != std::string::npos; at = text.find(kClass, at)) {
    const std::size_t close = text.find("'>", at);
    if (close == std::string::npos) break;
    const std::string whole = text.substr(at + kClass.size(), close - at - kClass.size());
    const std::size_t dot = whole.rfind('.');
    const std::string name = dot == std::string::npos ? whole : whole.substr(dot + 1);
    text.replace(at, close + 2 - at, name);
    at += name.size();
  }
  // Addresses make equal reasons look different.
  for (std::size_t at = text.find(" at 0x"); at != std::string::npos;
       at = text.find(" at 0x", at)) {
    std::size_t end = at + 6;
    while (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end]))) ++end;
    text.erase(at, end - at);
  }
  return text;
}

std::vector<SourceFrame> parse_stack(std::string_view text) {
  std::vector<SourceFrame> stack;
  bool wants_code = false;
  for (const std::string_view raw : lines_of(text)) {
    const std::string_view line = trim(raw);
    if (line.starts_with("File \"")) {
      const std::size_t close = line.find("\", line ", 6);
      if (close == std::string_view::npos) continue;
      SourceFrame frame;
      frame.file = line.substr(6, close - 6);
      const std::string_view rest = line.substr(close + 8);
      for (const char c : rest) {
        if (!std::isdigit(static_cast<unsigned char>(c)) || frame.line > 100'000'000) break;
        frame.line = frame.line * 10 + (c - '0');
      }
      const std::size_t in = rest.find(", in ");
      // Lines without a function explain where a variable came from.
      wants_code = in != std::string_view::npos;
      if (!wants_code) continue;
      frame.function = trim(rest.substr(in + 5));
      stack.push_back(std::move(frame));
    } else if (wants_code) {
      wants_code = false;
      if (!line.empty() && !stack.empty()) stack.back().code = line;
    }
  }
  return stack;
}

GraphBreak parse_graph_break(std::string_view message) {
  GraphBreak result;
  const std::size_t python = message.find("\nTraceback (most recent call last)");
  std::string_view body = message.substr(0, python);
  const std::size_t traceback = body.find("User code traceback:");
  const std::string_view headers = body.substr(0, traceback);
  if (traceback != std::string_view::npos) result.stack = parse_stack(body.substr(traceback));
  bool wants_reason = false;
  bool in_details = false;
  for (const std::string_view raw : lines_of(headers)) {
    const std::string_view line = trim(raw);
    if (raw.starts_with("Graph break")) {
      const std::size_t at = raw.find("in user code at ");
      if (at != std::string_view::npos) {
        parse_place(raw.substr(at + 16), result);
      } else if (raw.starts_with("Graph break: ") || raw.starts_with("Graph break from `")) {
        if (result.reason.empty()) parse_short_headline(raw, result);
      }
    } else if (line.starts_with("Reason: ")) {
      result.reason = plain_reason(line.substr(8));
      wants_reason = false;
    } else if (line.starts_with("Graph Break Reason:")) {
      const std::string_view reason = trim(line.substr(19));
      result.skips_function = reason.starts_with("Failed to handle graph break gracefully");
      wants_reason = is_preamble(reason);
      if (!wants_reason) result.reason = plain_reason(reason);
      in_details = false;
    } else if (starts_explanation(line)) {
      wants_reason = false;
      in_details = true;
      add_detail(line, result);
    } else if (wants_reason && !line.empty()) {
      result.reason = plain_reason(line);
      wants_reason = false;
    } else if (!in_details && result.reason.empty() && !line.empty() &&
               !line.starts_with("File \"") && !raw.starts_with("  ")) {
      result.reason = plain_reason(line);
    }
  }
  if (result.stack.empty() && result.line == 0) {
    const std::size_t from = headers.find("from user code at   File ");
    result.stack = parse_stack(headers.substr(from == std::string_view::npos ? 0 : from + 17));
  }
  if (result.line == 0 && !result.stack.empty()) {
    result.file = result.stack.back().file;
    result.line = result.stack.back().line;
  }
  if (result.reason.empty()) result.reason = "no reason logged";
  return result;
}

SourceFrame user_place(const GraphBreak& graph_break) {
  for (auto it = graph_break.stack.rbegin(); it != graph_break.stack.rend(); ++it) {
    if (!is_library_file(it->file)) return *it;
  }
  if (!graph_break.stack.empty() && graph_break.stack.back().file == graph_break.file) {
    return graph_break.stack.back();
  }
  return {graph_break.file, graph_break.line, "", ""};
}

bool is_internal(const GraphBreak& graph_break) {
  const auto is_wrapper = [](std::string_view file) {
    return is_torch_file(file) && (file.find("nn/parallel/") != std::string_view::npos ||
                                   file.find("distributed/") != std::string_view::npos ||
                                   file.find("_dynamo/external_utils") != std::string_view::npos);
  };
  if (is_wrapper(graph_break.file)) return true;
  // The frames behind the last one of the user's: those of a wrapper that it calls, or of a
  // library.
  bool passes_wrapper = false, has_user = false;
  for (const SourceFrame& frame : graph_break.stack) {
    const bool user = !is_library_file(frame.file);
    has_user = has_user || user;
    passes_wrapper = user ? false : passes_wrapper || is_wrapper(frame.file);
  }
  if (passes_wrapper) return true;
  return is_torch_file(graph_break.file) && !has_user;
}

}  // namespace monograph::diagnose
