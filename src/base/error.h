#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Three kinds of error. Each message names what was given, what is allowed and what to do.
namespace monograph {

// The caller gave something that is not allowed; the message says what is.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A bug in Monograph.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// A collective failed; recoverable by a new group without the ranks at fault. The message names
// rank, operation, label and sequence number; the fields hold the same for programs.
class CommError : public std::runtime_error {
 public:
  struct Place {
    int rank = -1;              // the rank that throws
    std::string operation;      // "all_reduce"
    std::string label;          // the caller's name for this call
    int64_t sequence = -1;      // 1 for the first collective of the group
    std::vector<int> at_fault;  // the ranks that are dead, stopped, absent or called otherwise
  };

  explicit CommError(const std::string& message) : std::runtime_error(message) {}
  CommError(const std::string& message, Place place)
      : std::runtime_error(message), place_(std::make_shared<const Place>(std::move(place))) {}

  const Place& place() const {
    static const Place kUnknown;
    return place_ ? *place_ : kUnknown;
  }

 private:
  std::shared_ptr<const Place> place_;  // shared: an exception's copies must not throw
};

template <typename... Args>
[[noreturn]] void throw_user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void throw_internal_error(fmt::format_string<Args...> format, Args&&... args) {
  throw InternalError("internal error (a bug, please report it): " +
                      fmt::format(format, std::forward<Args>(args)...));
}

// Checks an invariant of our own code; user input is checked with throw_user_error instead.
template <typename... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw_internal_error(format, std::forward<Args>(args)...);
}

}  // namespace monograph
