#pragma once

#include <cstdint>
#include <vector>

namespace monograph::diagnose {

// Half-open, nanoseconds.
struct Interval {
  int64_t start = 0;
  int64_t end = 0;
  bool operator==(const Interval&) const = default;
};

// Sorted, disjoint and not touching, from any intervals; empty and inverted ones vanish.
std::vector<Interval> merge_intervals(std::vector<Interval> intervals);

int64_t total_length(const std::vector<Interval>& merged);

// Length of what both hold; both merged.
int64_t shared_length(const std::vector<Interval>& a, const std::vector<Interval>& b);

// What a holds and b does not; both merged.
std::vector<Interval> subtract_intervals(const std::vector<Interval>& a,
                                         const std::vector<Interval>& b);

}  // namespace monograph::diagnose
