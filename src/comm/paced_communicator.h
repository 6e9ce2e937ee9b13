#pragma once

#include <chrono>
#include <memory>

#include "comm/communicator.h"

namespace monograph::comm {

// A link as a model: a call takes latency + bytes / bandwidth, and no core.
struct Pace {
  double bytes_per_second = 1e9;
  std::chrono::microseconds latency{0};
};

// Slows another communicator down to a link's pace: each call moves its data and then sleeps until
// its time is over. Bytes are those that a rank of P sends in a ring: 2 (P-1)/P of the data for
// all_reduce, (P-1)/P of all blocks for all_gather, reduce_scatter and all_to_all, all of it for
// broadcast and send; a recv ends when its send has been received.
std::unique_ptr<Communicator> make_paced(std::unique_ptr<Communicator> inner, const Pace& pace);

// What a call of `bytes` in each rank takes at this pace.
std::chrono::nanoseconds paced_time(const Pace& pace, double bytes);

}  // namespace monograph::comm
