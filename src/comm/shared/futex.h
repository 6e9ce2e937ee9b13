#pragma once

#include <atomic>
#include <cstdint>

#include "comm/store.h"

namespace monograph::comm {

// A counter in memory that several threads or processes share: one rank raises it, others wait for
// it. Zeroed memory is one at 0. It wraps around.
class SharedCounter {
 public:
  // Makes everything written before visible to who sees the new value.
  void raise();
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  bool has_reached(uint32_t target) const { return static_cast<int32_t>(value() - target) >= 0; }
  // Spins for a few microseconds, then sleeps until the target is reached or the slice is over.
  bool wait(uint32_t target, Milliseconds slice);

 private:
  std::atomic<uint32_t> value_;
  std::atomic<uint32_t> num_sleepers_;
};

}  // namespace monograph::comm
