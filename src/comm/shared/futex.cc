#include "comm/shared/futex.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace monograph::comm {
namespace {

constexpr int kSpins = 200;
constexpr int kYields = 4;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Not the private futex: the word may lie in memory of several processes.
void sleep_while(std::atomic<uint32_t>* word, uint32_t value, Milliseconds slice) {
  const timespec time = {slice.count() / 1000, (slice.count() % 1000) * 1'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, value, &time, nullptr, 0);
}

}  // namespace

void SharedCounter::raise() {
  // Sequentially consistent, as is the sleeper's side: either we see it or it sees the new value.
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (num_sleepers_.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value_), FUTEX_WAKE, INT_MAX, nullptr, nullptr,
            0);
  }
}

bool SharedCounter::wait(uint32_t target, Milliseconds slice) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (has_reached(target)) return true;
    relax();
  }
  for (int yield = 0; yield < kYields; ++yield) {
    if (has_reached(target)) return true;
    sched_yield();
  }
  num_sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = value_.load(std::memory_order_seq_cst);
  if (static_cast<int32_t>(seen - target) < 0) sleep_while(&value_, seen, slice);
  num_sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return has_reached(target);
}

}  // namespace monograph::comm
