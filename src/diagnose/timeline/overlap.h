#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

// How communication and computation share a stretch of time. Each figure is the exact length of a
// union of intervals over all streams, in nanoseconds.
struct Overlap {
  int64_t communication_ns = 0;
  int64_t computation_ns = 0;
  int64_t both_ns = 0;
  int64_t busy_ns = 0;  // any device work, copies and memsets too
  int64_t wall_ns = 0;  // first start to last end of device work

  int64_t exposed_ns() const { return communication_ns - both_ns; }
  // both / communication, which HTA reports; and both / max(communication, computation). In
  // percent; 0 where there is no communication.
  double over_communication() const;
  double over_larger() const;
};

// Of all device work in the trace, steps or not.
Overlap total_overlap(const Timeline& timeline);

// Of the work launched in each step; as long as timeline.steps.
std::vector<Overlap> step_overlaps(const Timeline& timeline);

// One stream that carried a collective: how much of its own communication was hidden by computation
// elsewhere.
struct StreamOverlap {
  int32_t stream = 0;
  int16_t device = 0;
  int64_t num_collectives = 0;
  int64_t communication_ns = 0;
  int64_t both_ns = 0;
};
std::vector<StreamOverlap> stream_overlaps(const Timeline& timeline);

// All collectives of one kernel or operation, by total time not hidden, the worst first.
struct CollectiveOverlap {
  std::string op;
  std::string group;
  int64_t num_calls = 0;
  int64_t total_ns = 0;
  int64_t hidden_ns = 0;
  int64_t num_elements = 0;  // of all calls; -1 unknown
  int64_t exposed_ns() const { return total_ns - hidden_ns; }
};
std::vector<CollectiveOverlap> collective_overlaps(const Timeline& timeline);

// Where the device did nothing between its first and last work. A gap is put down to what ends it:
// the host, if the next work was launched only after the gap began; the launch itself, if the gap
// is short; else something that the trace does not show (an event wait, a dependency).
struct Idle {
  int64_t host_wait_ns = 0;
  int64_t kernel_wait_ns = 0;
  int64_t other_ns = 0;
  int64_t num_gaps = 0;
  int64_t total_ns() const { return host_wait_ns + kernel_wait_ns + other_ns; }
};

inline constexpr int64_t kKernelGapNs = 30'000;  // gaps up to this long are the launch's own

// Of the device as a whole: no stream had work.
Idle device_idle(const Timeline& timeline);

// Of each stream on its own, as HTA counts it.
struct StreamIdle {
  int32_t stream = 0;
  int16_t device = 0;
  int64_t busy_ns = 0;
  Idle idle;
};
std::vector<StreamIdle> stream_idles(const Timeline& timeline);

}  // namespace monograph::diagnose
