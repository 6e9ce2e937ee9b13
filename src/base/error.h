#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

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

// A collective failed; recoverable. Names rank, operation and sequence number.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
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
