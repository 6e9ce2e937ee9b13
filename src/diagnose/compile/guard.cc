#include "diagnose/compile/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

// The text between `before` and `after`; "" if either is missing.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  if (after.empty()) return text;
  const std::size_t end = text.find(after);
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

// L['self'].step -> self.step; G['N'] -> N; fn._modules['1'] -> fn[1]
std::string plain_subject(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size();) {
    const bool scope =
        (source.substr(i).starts_with("L['") || source.substr(i).starts_with("G['")) &&
        (i == 0 || !std::isalnum(static_cast<unsigned char>(source[i - 1])));
    if (scope) {
      const std::size_t close = source.find("']", i + 3);
      if (close != std::string_view::npos) {
        text += source.substr(i + 3, close - i - 3);
        i = close + 2;
        continue;
      }
    }
    constexpr std::string_view kModules = "._modules['";
    if (source.substr(i).starts_with(kModules)) {
      const std::size_t close = source.find("']", i);
      if (close != std::string_view::npos) {
        const std::string_view name =
            source.substr(i + kModules.size(), close - i - kModules.size());
        const bool number = leading_digits(name) >= 0;
        text += number ? fmt::format("[{}]", name) : fmt::format(".{}", name);
        i = close + 2;
        continue;
      }
    }
    text += source[i++];
  }
  return text;
}

// "guard  # code  # file.py:12 in f (HINT: ...)": cuts the comment off and reads it.
std::string_view take_comment(std::string_view text, Guard& guard) {
  // The expression may hold a '#' inside a string; the comment is after two spaces.
  const std::size_t comment = text.find("  # ");
  if (comment == std::string_view::npos) return trim(text);
  std::string_view tail = text.substr(comment + 4);
  const std::size_t place = tail.rfind("  # ");
  if (place != std::string_view::npos) {
    // A range may have several causes, "code  # place (why) and code  # place": the last is the
    // user's.
    const std::string_view codes = tail.substr(0, place);
    const std::size_t last = codes.rfind(") and ");
    guard.code = trim(last == std::string_view::npos ? codes : codes.substr(last + 6));
    tail.remove_prefix(place + 4);
  }
  // file.py:12 in f
  const std::size_t in = tail.find(" in ");
  const std::string_view location = tail.substr(0, in);
  const std::size_t colon = location.rfind(':');
  if (colon != std::string_view::npos && leading_digits(location.substr(colon + 1)) >= 0) {
    guard.file = location.substr(0, colon);
    guard.line = leading_digits(location.substr(colon + 1));
    if (in != std::string_view::npos) {
      const std::string_view function = tail.substr(in + 4);
      guard.function = function.substr(0, function.find_first_of(" ("));
    }
  } else if (guard.code.empty()) {
    guard.code = trim(tail);
  }
  return trim(text.substr(0, comment));
}

// tensor 'L['x']' size mismatch at index 0. expected 8, actual 6
bool parse_tensor(std::string_view text, Guard& guard) {
  constexpr std::string_view kStart = "tensor '";
  if (!text.starts_with(kStart)) return false;
  const struct {
    std::string_view words;
    GuardKind kind;
  } kKinds[] = {{"' size mismatch", GuardKind::kSize},
                {"' stride mismatch", GuardKind::kStride},
                {"' rank mismatch", GuardKind::kNumDims},
                {"' dtype mismatch", GuardKind::kDtype},
                {"' dispatch key set mismatch", GuardKind::kDevice},
                {"' device mismatch", GuardKind::kDevice},
                {"' Tensor device", GuardKind::kDevice},
                {"' requires_grad mismatch", GuardKind::kRequiresGrad}};
  for (const auto& [words, kind] : kKinds) {
    const std::size_t at = text.find(words);
    if (at == std::string_view::npos) continue;
    guard.kind = kind;
    guard.subject = plain_subject(text.substr(kStart.size(), at - kStart.size()));
    const std::string_view rest = text.substr(at + words.size());
    guard.index = leading_digits(between(rest, "at index ", "."));
    const std::size_t actual = rest.rfind(", actual ");
    const std::size_t expected = rest.find("expected ");
    if (expected != std::string_view::npos) {
      guard.expected =
          trim(rest.substr(expected + 9, actual == std::string_view::npos ? std::string_view::npos
                                                                          : actual - expected - 9));
    }
    if (actual != std::string_view::npos) guard.actual = trim(rest.substr(actual + 9));
    if (kind == GuardKind::kRequiresGrad) {
      const bool wanted = has(guard.expected, "1") || has(guard.expected, "True");
      guard.expected = wanted ? "True" : "False";
      guard.actual = wanted ? "False" : "True";
    }
    return true;
  }
  return false;
}

// not hasattr(L['c'], 'bias'), ___dict_contains('m', L['b']), KeyError on L['b']['m']
bool parse_presence(std::string_view text, Guard& guard) {
  const bool is_error = text.starts_with("KeyError on ") ||
                        text.starts_with("AttributeError on ") ||
                        text.starts_with("IndexError on ");
  const bool is_call = has(text, "hasattr(") || has(text, "_contains(");
  if (!is_error && !is_call) return false;
  guard.kind = GuardKind::kAttribute;
  const bool was_absent = text.starts_with("not ");
  guard.expected = was_absent ? "no" : "yes";
  guard.actual = was_absent ? "yes" : "no";
  if (is_error) {
    guard.subject = plain_subject(text.substr(text.find(" on ") + 4));
    return true;
  }
  const std::string_view arguments =
      text.substr(text.find('(') + 1, text.rfind(')') - text.find('(') - 1);
  const bool name_first = has(text, "_contains(");
  const std::size_t comma = name_first ? arguments.find(", ") : arguments.rfind(", ");
  if (comma == std::string_view::npos) {
    guard.subject = plain_subject(text);
    return true;
  }
  const std::string_view first = trim(arguments.substr(0, comma));
  const std::string_view second = trim(arguments.substr(comma + 2));
  if (name_first) {
    guard.subject = fmt::format("{}[{}]", plain_subject(second), first);
  } else {
    const std::string_view name = between(second, "'", "'");
    guard.subject = fmt::format("{}.{}", plain_subject(first), name.empty() ? second : name);
  }
  return true;
}

bool parse_words(std::string_view text, Guard& guard) {
  constexpr std::string_view kGlobal = "GLOBAL_STATE changed:";
  if (text.starts_with(kGlobal)) {
    guard.subject = trim(text.substr(kGlobal.size()));
    guard.kind = has(guard.subject, "grad_mode")  ? GuardKind::kGradMode
                 : has(guard.subject, "autocast") ? GuardKind::kAutocast
                                                  : GuardKind::kGlobalState;
    return true;
  }
  if (has(text, "___check_global_state()") || has(text, "___check_torch_function_mode")) {
    guard.kind = GuardKind::kGlobalState;
    guard.subject = has(text, "mode") ? "torch function mode stack" : "global state";
    return true;
  }
  if (text.starts_with("expected type of '")) {
    guard.kind = GuardKind::kTensorType;
    const std::string_view rest = text.substr(18);
    guard.subject = plain_subject(rest.substr(0, rest.find("' to be ")));
    guard.expected = trim(between(rest, "' to be ", ", but found"));
    guard.actual = trim(between(rest, "but found ", ""));
    return true;
  }
  if (text.starts_with("Duplicate tensor") || has(text, "check_no_aliasing")) {
    guard.kind = GuardKind::kAliasing;
    guard.subject = plain_subject(between(text, "[", "]"));
    return true;
  }
  if (has(text, "_backend(") || has(text, "___skip_backend_check")) {
    guard.kind = GuardKind::kBackend;
    guard.subject = "backend";
    return true;
  }
  return parse_presence(text, guard);
}

// ___check_obj_id(L['fn'], 1396), type=<class 'function'>
bool parse_call(std::string_view text, Guard& guard) {
  const auto argument = [&](std::string_view name) {
    const std::string_view inner = between(text, name, "");
    const std::size_t comma = inner.rfind(", ", inner.find(')'));
    return plain_subject(
        inner.substr(0, comma == std::string_view::npos ? inner.find(')') : comma));
  };
  if (has(text, "___check_obj_id(")) {
    guard.kind = GuardKind::kIdentity;
    guard.subject = argument("___check_obj_id(");
  } else if (has(text, "___check_type_id(")) {
    guard.kind = GuardKind::kType;
    guard.subject = argument("___check_type_id(");
  } else {
    return false;
  }
  constexpr std::string_view kCode = ".__code__";
  if (guard.subject.ends_with(kCode)) guard.subject.erase(guard.subject.size() - kCode.size());
  guard.expected = trim(between(text, "type=<class '", "'"));
  return true;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == 'e' ||
           c == '+';
  }) && std::any_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c));
  });
}

GuardKind kind_of_value(std::string_view subject, std::string_view value) {
  const bool on_module =
      has(subject, ".") &&
      (subject.starts_with("self.") || subject.starts_with("s.") || has(subject, "_modules"));
  if (value == "True" || value == "False") {
    return subject.ends_with(".training") ? GuardKind::kTraining : GuardKind::kBoolean;
  }
  if (value == "None") return GuardKind::kNone;
  if (is_number(value)) {
    if (on_module) return GuardKind::kModuleNumber;
    const bool is_float = value.find_first_of(".e") != std::string_view::npos;
    return is_float ? GuardKind::kFloat : GuardKind::kInteger;
  }
  if (value.starts_with("'") || value.starts_with("\"")) return GuardKind::kString;
  return GuardKind::kValue;
}

bool has_shape(std::string_view text) {
  return has(text, ".size()[") || has(text, ".stride()[") || has(text, ".storage_offset()") ||
         has(text, ".shape[");
}

// L['k'] == 0.5, len(L['xs']) == 3, 5 <= L['x'].size()[0], L['flag'], not L['flag']
void parse_expression(std::string_view text, Guard& guard) {
  if (has_shape(text)) {
    guard.kind = GuardKind::kShape;
    guard.subject = plain_subject(text);
    guard.expected = guard.subject;
    return;
  }
  std::size_t at = text.find(" == ");
  std::size_t width = 4;
  if (at == std::string_view::npos) {
    at = text.find(" is ");
    if (at != std::string_view::npos && text.substr(at).starts_with(" is not ")) width = 8;
  }
  if (at == std::string_view::npos) {
    const bool negated = text.starts_with("not ");
    const std::string_view name = negated ? text.substr(4) : text;
    guard.subject = plain_subject(trim(name));
    const bool plain =
        !guard.subject.empty() && name.find_first_of(" <>=") == std::string_view::npos;
    if (!plain) return;
    guard.kind = name.ends_with(".training") ? GuardKind::kTraining : GuardKind::kBoolean;
    guard.expected = negated ? "False" : "True";
    guard.actual = negated ? "True" : "False";
    return;
  }
  const std::string_view left = trim(text.substr(0, at)), right = trim(text.substr(at + width));
  guard.subject = plain_subject(left);
  guard.expected = width == 8 ? fmt::format("not {}", right) : std::string(right);
  if (left.starts_with("len(") || has(left, "__len__")) {
    guard.kind = GuardKind::kLength;
  } else if (has(left, ".keys(") || has(left, "set(") || has(left, "___dict_version") ||
             has(left, "dict.keys")) {
    guard.kind = GuardKind::kKeys;
    guard.subject = plain_subject(between(left, "keys(", ")"));
    if (guard.subject.empty()) guard.subject = plain_subject(left);
  } else if (has(left, "CURRENT_DEVICE")) {
    guard.kind = GuardKind::kGlobalState;
    guard.subject = "default device";
  } else if (text.find(" is ") == at && right.find('[') != std::string_view::npos) {
    guard.kind = GuardKind::kAliasing;
    guard.subject = plain_subject(text);
  } else {
    guard.kind =
        kind_of_value(left.starts_with("L['self']") ? guard.subject : plain_subject(left), right);
    if (guard.kind == GuardKind::kBoolean || guard.kind == GuardKind::kTraining) {
      guard.actual = right == "True" ? "False" : "True";
    }
  }
}

}  // namespace

std::string Guard::key() const {
  const std::string& name = kind == GuardKind::kUnknown ? expression : subject;
  return fmt::format("{}|{}|{}", static_cast<int>(kind), name, index);
}

Guard parse_guard(std::string_view text) {
  Guard guard;
  const std::string_view expression = take_comment(trim(text), guard);
  guard.expression = expression;
  if (expression.empty() || expression.starts_with("Unexpected recompilation")) return guard;
  if (!parse_tensor(expression, guard) && !parse_words(expression, guard) &&
      !parse_call(expression, guard)) {
    parse_expression(expression, guard);
  }
  return guard;
}

bool is_zero_or_one(const Guard& guard) {
  return guard.kind == GuardKind::kShape && guard.subject.starts_with("2 <= ") &&
         guard.subject.find_first_of("<=>+-*/%", 5) == std::string::npos;
}

std::string describe_guard(const Guard& guard) {
  switch (guard.kind) {
    case GuardKind::kSize:
      return fmt::format("size of {} at dimension {}", guard.subject, guard.index);
    case GuardKind::kStride:
      return fmt::format("stride of {} at dimension {}", guard.subject, guard.index);
    case GuardKind::kShape:
      if (is_zero_or_one(guard)) {
        return fmt::format("{} became 0 or 1", guard.subject.substr(5));
      }
      return fmt::format("the shape left the compiled range {}", guard.subject);
    case GuardKind::kNumDims:
      return fmt::format("number of dimensions of {}", guard.subject);
    case GuardKind::kDtype:
      return fmt::format("dtype of {}", guard.subject);
    case GuardKind::kDevice:
      return fmt::format("device or layout of {}", guard.subject);
    case GuardKind::kRequiresGrad:
      return fmt::format("requires_grad of {}", guard.subject);
    case GuardKind::kTensorType:
      return fmt::format("type of {}", guard.subject);
    case GuardKind::kGradMode:
      return "grad mode (torch.no_grad or not)";
    case GuardKind::kAutocast:
      return fmt::format("autocast state ({})", guard.subject);
    case GuardKind::kGlobalState:
      return fmt::format("global state: {}", guard.subject);
    case GuardKind::kLength:
      return guard.subject;
    case GuardKind::kKeys:
      return fmt::format("keys of {}", guard.subject);
    case GuardKind::kIdentity:
      return fmt::format("{} is another object", guard.subject);
    case GuardKind::kType:
      return fmt::format("class of {}", guard.subject);
    case GuardKind::kAttribute:
      return fmt::format("whether {} exists", guard.subject);
    case GuardKind::kAliasing:
      return fmt::format("which arguments are one tensor ({})", guard.subject);
    case GuardKind::kBackend:
      return "the backend or its options";
    case GuardKind::kUnknown:
      return guard.expression.empty() ? "the log gives no reason" : guard.expression;
    default:
      return fmt::format("value of {}", guard.subject);
  }
}

bool has_values(const Guard& guard) {
  return guard.kind != GuardKind::kShape && guard.kind != GuardKind::kIdentity &&
         guard.kind != GuardKind::kKeys && guard.kind != GuardKind::kAliasing &&
         !guard.expected.empty();
}

std::string describe_change(const Guard& guard) {
  const std::string text = describe_guard(guard);
  if (!has_values(guard)) return text;
  if (guard.actual.empty()) return fmt::format("{} (was {})", text, guard.expected);
  return fmt::format("{}: {} -> {}", text, guard.expected, guard.actual);
}

}  // namespace monograph::diagnose
