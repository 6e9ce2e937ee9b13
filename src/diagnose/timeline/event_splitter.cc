#include "diagnose/timeline/event_splitter.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace monograph::diagnose {
namespace {

// An event of a Kineto trace has some hundred bytes; one this long means that a quote was lost.
// Members of the root list every process group.
constexpr size_t kMaxElement = size_t{4} << 20;
constexpr size_t kMaxMember = size_t{256} << 20;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ',' || c == ':';
}

enum Class : uint8_t { kPlain, kQuote, kOpen, kClose };

constexpr std::array<uint8_t, 256> make_classes() {
  std::array<uint8_t, 256> classes{};
  classes['"'] = kQuote;
  classes['{'] = classes['['] = kOpen;
  classes['}'] = classes[']'] = kClose;
  return classes;
}

constexpr std::array<uint8_t, 256> kClasses = make_classes();

// The next quote at or after `i` that no backslash escapes; `size` if there is none. The string's
// opening quote stands before `i`, so the look back ends there at the latest.
size_t find_quote(const char* text, size_t i, size_t size) {
  while (i < size) {
    const void* found = std::memchr(text + i, '"', size - i);
    if (found == nullptr) return size;
    const auto quote = static_cast<size_t>(static_cast<const char*>(found) - text);
    size_t slashes = 0;
    while (slashes < quote && text[quote - slashes - 1] == '\\') ++slashes;
    if (slashes % 2 == 0) return quote;
    i = quote + 1;
  }
  return size;
}

}  // namespace

void EventSplitter::feed(std::string_view piece) {
  buffer_.append(piece);
  consume();
  drop_used();
}

bool EventSplitter::finish() {
  return place_ == Place::kEnd;
}

void EventSplitter::consume() {
  while (place_ != Place::kEnd) {
    if (is_lost_ && !find_event()) return;
    // Separators carry no meaning here, so a missing or doubled comma does no harm.
    while (scan_ == 0 && at_ < buffer_.size() && is_space(buffer_[at_])) ++at_;
    if (at_ >= buffer_.size() || !step()) return;
  }
  at_ = buffer_.size();
}

bool EventSplitter::step() {
  char c = buffer_[at_];
  switch (place_) {
    case Place::kStart:
      ++at_;
      if (c == '[') root_is_list_ = true;
      if (c == '[' || c == '{') place_ = c == '[' ? Place::kElement : Place::kRootKey;
      return true;
    case Place::kRootKey:
      return take_root_key();
    case Place::kRootValue:
      if (c == '[' && key_ == "traceEvents") {
        ++at_;
        place_ = Place::kElement;
        return true;
      }
      if (!scan_value()) return false;
      if (member) member(key_, std::string_view(buffer_).substr(at_, value_end_ - at_));
      at_ = value_end_;
      place_ = Place::kRootKey;
      return true;
    case Place::kElement:
      if (c == ']' || c == '}') {
        ++at_;
        place_ = root_is_list_ ? Place::kEnd : Place::kRootKey;
        return true;
      }
      if (!scan_value()) return false;
      if (event) event(std::string_view(buffer_).substr(at_, value_end_ - at_));
      at_ = value_end_;
      return true;
    case Place::kEnd:
      return false;
  }
  return false;
}

bool EventSplitter::take_root_key() {
  if (buffer_[at_] == '}') {
    ++at_;
    place_ = Place::kEnd;
    return true;
  }
  if (!scan_value()) return false;
  std::string_view key = std::string_view(buffer_).substr(at_, value_end_ - at_);
  if (key.size() >= 2 && key.front() == '"') {
    key_ = key.substr(1, key.size() - 2);
    place_ = Place::kRootValue;
  }
  at_ = value_end_;
  return true;
}

bool EventSplitter::scan_value() {
  size_t i = at_ + scan_;
  char first = buffer_[at_];
  bool is_scalar = first != '"' && kClasses[static_cast<uint8_t>(first)] != kOpen;
  auto suspend = [&] {
    scan_ = i - at_;
    if (scan_ > (place_ == Place::kElement ? kMaxElement : kMaxMember)) {
      at_ = i;
      scan_ = 0;
      depth_ = 0;
      in_string_ = false;
      place_ = Place::kElement;
      is_lost_ = true;
    }
    return false;
  };
  auto found = [&](size_t end) {
    value_end_ = end;
    scan_ = 0;
    depth_ = 0;
    return true;
  };
  const char* text = buffer_.data();
  size_t size = buffer_.size();
  for (; i < size; ++i) {
    if (in_string_) {
      i = find_quote(text, i, size);
      if (i == size) return suspend();
      in_string_ = false;
      if (depth_ == 0) return found(i + 1);
      continue;
    }
    uint8_t kind = kClasses[static_cast<uint8_t>(text[i])];
    if (kind == kPlain) {
      if (is_scalar && is_space(text[i])) return found(i);
      continue;
    }
    if (kind == kQuote) {
      if (is_scalar) return found(i == at_ ? i + 1 : i);
      in_string_ = true;
    } else if (kind == kOpen) {
      if (is_scalar) return found(i);
      ++depth_;
    } else {
      if (is_scalar) return found(i == at_ ? i + 1 : i);
      if (--depth_ == 0) return found(i + 1);
    }
  }
  return suspend();
}

bool EventSplitter::find_event() {
  while (true) {
    size_t key = buffer_.find("\"ph\"", at_);
    if (key == std::string::npos) {
      at_ = std::max(at_, buffer_.size() - std::min<size_t>(buffer_.size(), 16));
      return false;
    }
    size_t brace = buffer_.find_last_not_of(" \t\r\n", key - 1);
    if (key > at_ && brace != std::string::npos && brace >= at_ && buffer_[brace] == '{') {
      at_ = brace;
      is_lost_ = false;
      return true;
    }
    at_ = key + 4;
  }
}

void EventSplitter::drop_used() {
  buffer_.erase(0, at_);
  at_ = 0;
}

}  // namespace monograph::diagnose
