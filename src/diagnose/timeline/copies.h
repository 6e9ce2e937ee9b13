#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

// All copies of one kind ("Memcpy HtoD (Pageable -> Device)").
struct CopyKind {
  std::string name;
  int64_t num_copies = 0;
  int64_t num_bytes = 0;  // -1 if the trace does not say
  int64_t total_ns = 0;
  bool is_pageable = false;
  double gigabytes_per_second() const;
};
// By time, the largest first.
std::vector<CopyKind> copy_kinds(const Timeline& timeline);

// Copies of one kind and size that come again and again in a step: likely the same data, or one
// tensor at a time.
struct RepeatedCopy {
  std::string name;
  int64_t num_bytes = 0;
  int64_t per_step = 0;  // the median over the steps; the whole trace is one step if none is marked
  int64_t num_copies = 0;
  int64_t total_ns = 0;
};
inline constexpr int64_t kRepeats = 8;  // in a step, from which copies count as repeated

std::vector<RepeatedCopy> repeated_copies(const Timeline& timeline);

}  // namespace monograph::diagnose
