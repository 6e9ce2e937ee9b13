#include "diagnose/timeline/kineto_event.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "diagnose/hang/progress.h"

namespace monograph::diagnose {
namespace {

// The members of a JSON object without copying or checking: strings come without their quotes,
// escapes left in.
class Members {
 public:
  explicit Members(std::string_view object) : text_(object) {
    at_ = text_.empty() || text_[0] != '{' ? text_.size() : 1;
  }

  bool next(std::string_view& key, std::string_view& value) {
    return next_key(key) && take_value(value);
  }

  // Stops before the value, at which `rest` begins then.
  bool next_key(std::string_view& key) {
    skip_separators();
    if (at_ >= text_.size() || text_[at_] != '"' || !take_string(key)) return false;
    skip_separators();
    return at_ < text_.size();
  }
  std::string_view rest() const { return text_.substr(at_); }
  bool take_value(std::string_view& value) {
    return text_[at_] == '"' ? take_string(value) : take_other(value);
  }

 private:
  void skip_separators() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c != ' ' && c != ',' && c != ':' && c != '\n' && c != '\t' && c != '\r') return;
      ++at_;
    }
  }

  bool take_string(std::string_view& out) {
    const size_t begin = ++at_;
    for (at_ = text_.find('"', at_); at_ != std::string_view::npos;
         at_ = text_.find('"', at_ + 1)) {
      size_t slashes = 0;
      while (text_[at_ - slashes - 1] == '\\') ++slashes;  // the opening quote ends this
      if (slashes % 2 == 0) break;
    }
    if (at_ == std::string_view::npos) at_ = text_.size();
    if (at_ == text_.size()) return false;
    out = text_.substr(begin, at_++ - begin);
    return true;
  }

  bool take_other(std::string_view& out) {
    size_t begin = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '"') {
        std::string_view ignored;
        if (!take_string(ignored)) return false;
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') {
        if (depth == 0) break;
        --depth;
      }
      if (depth == 0 && (c == ',' || c == '\n' || c == ' ')) break;
      ++at_;
    }
    out = text_.substr(begin, at_ - begin);
    return !out.empty();
  }

  std::string_view text_;
  size_t at_;
};

struct Fields {
  std::string_view phase, category, name, start, duration, stream, process, args;
};

KinetoWork wanted_category(std::string_view category) {
  if (category == "kernel" || category == "Kernel") return KinetoWork::kKernel;
  if (category == "gpu_memcpy" || category == "Memcpy") return KinetoWork::kCopy;
  if (category == "gpu_memset" || category == "Memset") return KinetoWork::kMemset;
  if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime" ||
      category == "xpu_runtime" || category == "hip_runtime" || category == "hip_driver") {
    return KinetoWork::kLaunch;
  }
  if (category == "user_annotation") return KinetoWork::kAnnotation;
  if (category == "cpu_op" || category == "Operator") return KinetoWork::kCommParams;
  return KinetoWork::kNone;
}

// False if the event cannot matter; stops reading as soon as that is known.
bool parse_fields(std::string_view text, Fields& event, KinetoWork& wanted) {
  Members members(text);
  std::string_view key;
  std::string_view value;
  wanted = KinetoWork::kNone;
  while (members.next_key(key)) {
    // The arguments come last as a rule, and are read when they are needed.
    if (key == "args" && !event.start.empty() && !event.duration.empty() && !event.name.empty() &&
        !event.phase.empty() && !event.category.empty()) {
      event.args = members.rest();
      break;
    }
    if (!members.take_value(value)) break;
    if (key == "ph") {
      event.phase = value;
      if (value != "X") return false;
    } else if (key == "cat") {
      event.category = value;
      wanted = wanted_category(value);
      if (wanted == KinetoWork::kNone) return false;
    } else if (key == "name") {
      event.name = value;
    } else if (key == "ts") {
      event.start = value;
    } else if (key == "dur") {
      event.duration = value;
    } else if (key == "tid") {
      event.stream = value;
    } else if (key == "pid") {
      event.process = value;
    } else if (key == "args") {
      event.args = value;
    }
    if (wanted == KinetoWork::kCommParams && !event.name.empty() &&
        event.name != "record_param_comms")
      return false;
    if (wanted == KinetoWork::kAnnotation && !event.name.empty() &&
        !event.name.starts_with("ProfilerStep")) {
      return false;
    }
  }
  return wanted != KinetoWork::kNone;
}

void parse_collective_arg(std::string_view key, std::string_view value, KinetoEvent& args) {
  CollectiveInfo& info = args.collective;
  if (key == "Collective name") {
    info.op = plain_op(value);
    args.has_collective = true;
  } else if (key == "dtype") {
    info.dtype = value;
  } else if (key == "In msg nelems") {
    info.num_elements_in = leading_number(value).value_or(-1);
  } else if (key == "Out msg nelems") {
    info.num_elements_out = leading_number(value).value_or(-1);
  } else if (key == "Group size") {
    info.group_size = leading_number(value).value_or(-1);
  } else if (key == "Process Group Name") {
    info.group = unescape(value);
  } else if (key == "Process Group Description") {
    info.description = unescape(value);
  } else if (key == "Seq") {
    info.sequence = leading_number(value).value_or(-1);
  } else if (key == "Input Tensors start") {
    size_t digit = value.find_first_of("0123456789");
    if (digit != std::string_view::npos)
      info.input_address = leading_number(value.substr(digit)).value_or(0);
  }
}

void parse_args(std::string_view text, KinetoEvent& args) {
  Members members(text);
  std::string_view key;
  std::string_view value;
  while (members.next(key, value)) {
    if (key == "correlation") {
      args.correlation = leading_number(value).value_or(0);
    } else if (key == "External id" || key == "external id") {
      args.external_id = leading_number(value).value_or(-1);
    } else if (key == "stream") {
      args.stream = leading_number(value).value_or(-1);
    } else if (key == "device") {
      args.device = leading_number(value).value_or(-1);
    } else if (key == "bytes") {
      args.num_bytes = leading_number(value).value_or(-1);
    } else {
      parse_collective_arg(key, value, args);
    }
  }
}

void describe_work(const Fields& fields, KinetoEvent& event) {
  const bool is_escaped = event.name.find('\\') != std::string_view::npos;
  const std::string plain = is_escaped ? unescape(event.name) : std::string();
  const std::string_view name = is_escaped ? plain : event.name;
  if (event.stream < 0) event.stream = leading_number(fields.stream).value_or(0);
  if (event.device < 0) event.device = leading_number(fields.process).value_or(0);
  event.activity = event.work == KinetoWork::kKernel ? classify_kernel(name)
                   : event.work == KinetoWork::kCopy ? Activity::kCopy
                                                     : Activity::kMemset;
  if (event.activity == Activity::kCollective && event.collective.op.empty()) {
    event.collective.op = collective_op(name);
  }
}

}  // namespace

std::string unescape(std::string_view text) {
  if (text.find('\\') == std::string_view::npos) return std::string(text);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      char c = text[++i];
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::optional<int64_t> leading_number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

bool parse_microseconds(std::string_view text, int64_t& ns) {
  int64_t whole = 0;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc() || whole > int64_t{4'000'000'000'000'000} || whole < 0) return false;
  ns = whole * 1000;
  if (at == end) return true;
  if (*at == 'e' || *at == 'E' || *at == '.') {
    if (*at == '.' && std::all_of(at + 1, end, [](char c) { return c >= '0' && c <= '9'; })) {
      int64_t scale = 100;
      for (const char* digit = at + 1; digit < end && scale > 0; ++digit, scale /= 10) {
        ns += (*digit - '0') * scale;
      }
      return true;
    }
    std::string copy(text);
    char* stop = nullptr;
    double value = std::strtod(copy.c_str(), &stop) * 1000;
    if (*stop != '\0' || !std::isfinite(value) || value < 0 || value > 4e18) return false;
    ns = std::llround(value);
    return true;
  }
  return false;
}

KinetoEvent parse_kineto_event(std::string_view text) {
  KinetoEvent event;
  if (text.empty() || text[0] != '{') {
    event.is_damaged = true;
    return event;
  }
  Fields fields;
  if (!parse_fields(text, fields, event.work)) {
    event.work = KinetoWork::kNone;
    return event;
  }
  if (!parse_microseconds(fields.start, event.start_ns) ||
      !parse_microseconds(fields.duration, event.duration_ns)) {
    event.is_damaged = true;
    event.work = KinetoWork::kNone;
    return event;
  }
  event.name = fields.name;
  if (event.work != KinetoWork::kAnnotation) parse_args(fields.args, event);
  if (event.work == KinetoWork::kKernel || event.work == KinetoWork::kCopy ||
      event.work == KinetoWork::kMemset) {
    describe_work(fields, event);
  }
  return event;
}

}  // namespace monograph::diagnose
