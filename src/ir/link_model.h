#pragma once

#include <cstdint>

namespace monograph::ir {

// What a collective over a group costs: latency + bytes / bandwidth, both of the whole group (the
// 2 (n - 1) steps of a ring and its 2 (n - 1) / n passes over the data are in them).
struct LinkModel {
  // Of two processes on one host. Bucket sizes follow from them, so they do not change from run to
  // run by themselves; what is measured at the start is for predictions.
  double latency_s = 30e-6;
  double bytes_per_s = 4e9;

  // Of GPUs on one host: all_reduce by NCCL between two H200 with 18 links each.
  static LinkModel nvlink() { return {.latency_s = 40e-6, .bytes_per_s = 320e9}; }

  double seconds(int64_t bytes) const {
    return latency_s + static_cast<double>(bytes) / bytes_per_s;
  }
  // The size at which half of the bandwidth is reached.
  double half_bandwidth_bytes() const { return latency_s * bytes_per_s; }
};

}  // namespace monograph::ir
