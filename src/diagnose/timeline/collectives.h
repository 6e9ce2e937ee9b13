#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

// Why a collective began later than the host asked for it.
enum class LateReason : uint8_t {
  kNotLate,  // it began as soon as it was launched, while the device had other work
  kHost,     // the device was idle and the host had not launched it
  kStream,   // the collective before it on its stream was not done
  kKernel,   // it waited for a kernel on another stream
  kBusy,     // a kernel on another stream filled the device
  kOther,    // the trace does not show what it waited for
};
inline constexpr size_t kNumLateReasons = 6;
std::string_view name(LateReason reason);

// One kind of collective (operation, group, size) over the whole trace.
struct CollectiveDrift {
  std::string op;
  std::string group;
  int64_t num_elements = -1;
  int64_t num_calls = 0;
  int64_t drift_ns = 0;  // sum of start minus launch
  int64_t max_drift_ns = 0;
  std::array<int64_t, kNumLateReasons> calls_by_reason{};
  std::string kernel;  // the one waited for most often, of kKernel
  int64_t fastest_ns = 0;
  int64_t peer_wait_ns =
      0;  // sum of duration minus the fastest: time spent waiting for other ranks
};
// By drift plus peer wait, the largest first. Collectives whose launch is unknown count for peer
// wait only.
std::vector<CollectiveDrift> collective_drifts(const Timeline& timeline);

// Collectives that move nothing, or again what was just moved.
struct UselessCollective {
  enum class Why : uint8_t { kEmpty, kAlone, kRepeated } why = Why::kEmpty;
  std::string op;
  std::string group;
  int64_t num_elements = -1;
  int64_t num_calls = 0;
  int64_t total_ns = 0;
};
std::vector<UselessCollective> useless_collectives(const Timeline& timeline);

// How the ranks wait for each other in the collectives that all of them recorded. Durations alone
// are compared, so the clocks of the ranks need not agree: who is in the kernel for the shortest
// time came last.
struct RankArrival {
  int rank = -1;
  int64_t num_last = 0;      // collectives to which this rank came last by more than kLateNs
  int64_t made_wait_ns = 0;  // sum, over these, of how long the first one had to wait
  int64_t waited_ns = 0;     // by this rank for others
  int64_t computation_ns = 0;
  int64_t host_wait_ns = 0;  // device idle because nothing was launched
};
struct Arrivals {
  std::vector<RankArrival> ranks;
  int64_t num_matched = 0;    // collectives compared
  int64_t num_unmatched = 0;  // recorded by some ranks only
};
inline constexpr int64_t kLateNs = 20'000;

Arrivals compare_arrivals(const std::vector<const Timeline*>& timelines);

}  // namespace monograph::diagnose
