#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace monograph::comm {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Small shared values of a job, by key, for wiring up and for what ranks must agree on before they
// can talk. Calls may come from several threads. Each throws CommError when it does not end within
// its timeout or when the store's host is gone.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(std::string_view key, std::string_view value) = 0;
  // Waits until the key is there.
  virtual std::string get(std::string_view key, Milliseconds timeout) = 0;
  // Adds to a counter, which begins at 0, and returns the sum. get() of it is the decimal number.
  virtual int64_t add(std::string_view key, int64_t delta) = 0;
  // Waits until all keys are there; the error names those that are not.
  virtual void wait(std::span<const std::string> keys, Milliseconds timeout) = 0;
  // True if the key was there.
  virtual bool erase(std::string_view key) = 0;
};

}  // namespace monograph::comm
