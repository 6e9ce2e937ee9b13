#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace monograph::diagnose {

// Splits the JSON text of a Chrome trace, given piece by piece, into the elements of its
// traceEvents and the other members of its root; only one element is held at a time. It looks at
// brackets and quotes alone, so text that is no valid JSON inside an element (raw control
// characters, N/A) passes through to the caller.
class EventSplitter {
 public:
  // The views are valid during the call only. `event` gets each element of traceEvents, or of the
  // root where that is a list; `member` each other member of the root, as JSON text.
  std::function<void(std::string_view)> event;
  std::function<void(std::string_view key, std::string_view value)> member;

  void feed(std::string_view piece);

  // True if the text ended with its root closed.
  bool finish();

 private:
  enum class Place : uint8_t { kStart, kRootKey, kRootValue, kElement, kEnd };

  void consume();
  bool step();
  bool take_root_key();
  // Finds the end of the value that begins at at_; false if it lies beyond the buffer.
  bool scan_value();
  void drop_used();
  // Skips to the next thing that begins like an event; false if there is none yet.
  bool find_event();

  std::string buffer_;
  size_t at_ = 0;
  size_t scan_ = 0;  // how far scan_value came in an unfinished value
  int depth_ = 0;
  bool in_string_ = false;
  size_t value_end_ = 0;
  Place place_ = Place::kStart;
  bool root_is_list_ = false;
  bool is_lost_ = false;  // a value was too long to be one
  std::string key_;
};

}  // namespace monograph::diagnose
