#include "diagnose/timeline/kineto.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "diagnose/hang/progress.h"
#include "diagnose/timeline/event_splitter.h"

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
    skip_separators();
    if (at_ >= text_.size() || text_[at_] != '"' || !take_string(key)) return false;
    skip_separators();
    if (at_ >= text_.size()) return false;
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
    size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) return false;
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

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

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

struct Event {
  std::string_view phase, category, name, start, duration, stream, process, args;
};

enum class Wanted : uint8_t { kNo, kKernel, kCopy, kMemset, kLaunch, kAnnotation, kCommParams };

Wanted wanted_category(std::string_view category) {
  if (category == "kernel" || category == "Kernel") return Wanted::kKernel;
  if (category == "gpu_memcpy" || category == "Memcpy") return Wanted::kCopy;
  if (category == "gpu_memset" || category == "Memset") return Wanted::kMemset;
  if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime" ||
      category == "xpu_runtime" || category == "hip_runtime" || category == "hip_driver") {
    return Wanted::kLaunch;
  }
  if (category == "user_annotation") return Wanted::kAnnotation;
  if (category == "cpu_op" || category == "Operator") return Wanted::kCommParams;
  return Wanted::kNo;
}

// False if the event cannot matter; stops reading as soon as that is known.
bool parse_event(std::string_view text, Event& event, Wanted& wanted) {
  Members members(text);
  std::string_view key;
  std::string_view value;
  wanted = Wanted::kNo;
  while (members.next(key, value)) {
    if (key == "ph") {
      event.phase = value;
      if (value != "X") return false;
    } else if (key == "cat") {
      event.category = value;
      wanted = wanted_category(value);
      if (wanted == Wanted::kNo) return false;
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
    if (wanted == Wanted::kCommParams && !event.name.empty() && event.name != "record_param_comms")
      return false;
    if (wanted == Wanted::kAnnotation && !event.name.empty() &&
        !event.name.starts_with("ProfilerStep")) {
      return false;
    }
  }
  return wanted != Wanted::kNo;
}

struct Args {
  int64_t correlation = 0;
  int64_t external_id = -1;
  int64_t stream = -1;
  int64_t device = -1;
  int64_t num_bytes = -1;
  bool has_collective = false;
  CollectiveInfo collective;
};

void parse_collective_arg(std::string_view key, std::string_view value, Args& args) {
  CollectiveInfo& info = args.collective;
  if (key == "Collective name") {
    info.op = plain_op(value);
    args.has_collective = true;
  } else if (key == "dtype") {
    info.dtype = value;
  } else if (key == "In msg nelems") {
    info.num_elements_in = integer(value).value_or(-1);
  } else if (key == "Out msg nelems") {
    info.num_elements_out = integer(value).value_or(-1);
  } else if (key == "Group size") {
    info.group_size = integer(value).value_or(-1);
  } else if (key == "Process Group Name") {
    info.group = unescape(value);
  } else if (key == "Process Group Description") {
    info.description = unescape(value);
  } else if (key == "Seq") {
    info.sequence = integer(value).value_or(-1);
  } else if (key == "Input Tensors start") {
    size_t digit = value.find_first_of("0123456789");
    if (digit != std::string_view::npos)
      info.input_address = integer(value.substr(digit)).value_or(0);
  }
}

Args parse_args(std::string_view text) {
  Args args;
  Members members(text);
  std::string_view key;
  std::string_view value;
  while (members.next(key, value)) {
    if (key == "correlation") {
      args.correlation = integer(value).value_or(0);
    } else if (key == "External id" || key == "external id") {
      args.external_id = integer(value).value_or(-1);
    } else if (key == "stream") {
      args.stream = integer(value).value_or(-1);
    } else if (key == "device") {
      args.device = integer(value).value_or(-1);
    } else if (key == "bytes") {
      args.num_bytes = integer(value).value_or(-1);
    } else {
      parse_collective_arg(key, value, args);
    }
  }
  return args;
}

}  // namespace

bool parse_microseconds(std::string_view text, int64_t& ns) {
  int64_t whole = 0;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc() || whole > int64_t{9'000'000'000'000'000} || whole < 0) return false;
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
    if (*stop != '\0' || !std::isfinite(value) || value < 0 || value > 9e18) return false;
    ns = std::llround(value);
    return true;
  }
  return false;
}

class KinetoReader::Impl {
 public:
  explicit Impl(std::string source) {
    builder_.timeline.source = std::move(source);
    builder_.timeline.format = "Kineto";
    splitter_.event = [this](std::string_view text) { on_event(text); };
    splitter_.member = [this](std::string_view key, std::string_view value) {
      on_member(key, value);
    };
  }

  void feed(std::string_view piece) { splitter_.feed(piece); }

  Timeline finish() {
    builder_.timeline.is_truncated = !splitter_.finish();
    if (builder_.timeline.num_events == 0) {
      throw_user_error(
          "{}: no trace events in this file; give the JSON that torch.profiler exported",
          builder_.timeline.source);
    }
    join_collectives();
    return builder_.finish();
  }

 private:
  void on_event(std::string_view text) {
    Timeline& timeline = builder_.timeline;
    ++timeline.num_events;
    if (text.empty() || text[0] != '{') {
      ++timeline.num_skipped;
      return;
    }
    Event event;
    Wanted wanted = Wanted::kNo;
    if (!parse_event(text, event, wanted)) return;
    int64_t start = 0;
    int64_t duration = 0;
    if (!parse_microseconds(event.start, start) || !parse_microseconds(event.duration, duration)) {
      ++timeline.num_skipped;
      return;
    }
    switch (wanted) {
      case Wanted::kLaunch:
        if (int64_t id = parse_args(event.args).correlation; id != 0)
          builder_.add_launch(id, start);
        return;
      case Wanted::kAnnotation:
        builder_.add_step(event.name, start, start + duration);
        return;
      case Wanted::kCommParams:
        on_comm_params(event);
        return;
      default:
        on_device_work(event, wanted, start, duration);
    }
  }

  // record_param_comms, the host op of a collective, describes it where the kernel does not.
  void on_comm_params(const Event& event) {
    Args args = parse_args(event.args);
    if (args.has_collective && args.external_id >= 0) {
      params_.try_emplace(args.external_id, std::move(args.collective));
    }
  }

  void on_device_work(const Event& event, Wanted wanted, int64_t start, int64_t duration) {
    Timeline& timeline = builder_.timeline;
    Args args = parse_args(event.args);
    Span span;
    span.start_ns = start;
    span.end_ns = start + duration;
    std::string name = unescape(event.name);
    span.name = builder_.name_id(name);
    span.stream =
        static_cast<int32_t>(args.stream >= 0 ? args.stream : integer(event.stream).value_or(0));
    span.device =
        static_cast<int16_t>(args.device >= 0 ? args.device : integer(event.process).value_or(0));
    span.activity = wanted == Wanted::kKernel ? classify_kernel(name)
                    : wanted == Wanted::kCopy ? Activity::kCopy
                                              : Activity::kMemset;
    if (span.activity == Activity::kCollective) {
      span.detail = static_cast<int32_t>(timeline.collectives.size());
      if (args.collective.op.empty()) args.collective.op = collective_op(name);
      if (!args.has_collective && args.external_id >= 0)
        wanting_.emplace_back(span.detail, args.external_id);
      timeline.collectives.push_back(std::move(args.collective));
    } else if (span.activity == Activity::kCopy) {
      span.detail = static_cast<int32_t>(timeline.copies.size());
      timeline.copies.push_back({args.num_bytes, name.find("Pageable") != std::string::npos});
    }
    builder_.add(span, args.correlation);
  }

  void on_member(std::string_view key, std::string_view value) {
    if (key == "baseTimeNanoseconds") builder_.timeline.base_ns = integer(value).value_or(0);
    if (key != "distributedInfo") return;
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    if (parser.parse(value.data(), value.size()).get(root) != simdjson::SUCCESS) return;
    int64_t number = 0;
    if (root["rank"].get(number) == simdjson::SUCCESS)
      builder_.timeline.rank = static_cast<int>(number);
    if (root["world_size"].get(number) == simdjson::SUCCESS) {
      builder_.timeline.world_size = static_cast<int>(number);
    }
  }

  void join_collectives() {
    for (auto [index, external_id] : wanting_) {
      auto found = params_.find(external_id);
      if (found != params_.end())
        builder_.timeline.collectives[static_cast<size_t>(index)] = found->second;
    }
  }

  TimelineBuilder builder_;
  EventSplitter splitter_;
  std::unordered_map<int64_t, CollectiveInfo> params_;  // by external id
  std::vector<std::pair<int32_t, int64_t>> wanting_;    // collective, its external id
};

KinetoReader::KinetoReader(std::string source) : impl_(std::make_unique<Impl>(std::move(source))) {}
KinetoReader::~KinetoReader() = default;
void KinetoReader::feed(std::string_view piece) {
  impl_->feed(piece);
}
Timeline KinetoReader::finish() {
  return impl_->finish();
}

bool looks_like_kineto(std::string_view head) {
  size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start == std::string_view::npos || (head[start] != '{' && head[start] != '[')) return false;
  auto has = [&](std::string_view text) { return head.find(text) != std::string_view::npos; };
  return has("\"traceEvents\"") || (has("\"schemaVersion\"") && has("\"deviceProperties\"")) ||
         (has("\"schemaVersion\"") && has("\"distributedInfo\"")) ||
         (has("\"ph\"") && has("\"ts\""));
}

}  // namespace monograph::diagnose
