#include "diagnose/timeline/intervals.h"

#include <algorithm>

namespace monograph::diagnose {

std::vector<Interval> merge_intervals(std::vector<Interval> intervals) {
  auto by_start = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_start)) {
    std::sort(intervals.begin(), intervals.end(), by_start);
  }
  size_t kept = 0;
  for (const Interval& interval : intervals) {
    if (interval.end <= interval.start) continue;
    if (kept > 0 && interval.start <= intervals[kept - 1].end) {
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, interval.end);
    } else {
      intervals[kept++] = interval;
    }
  }
  intervals.resize(kept);
  return intervals;
}

int64_t total_length(const std::vector<Interval>& merged) {
  int64_t length = 0;
  for (const Interval& interval : merged) length += interval.end - interval.start;
  return length;
}

int64_t shared_length(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  int64_t length = 0;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    int64_t start = std::max(a[i].start, b[j].start);
    int64_t end = std::min(a[i].end, b[j].end);
    if (end > start) length += end - start;
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return length;
}

std::vector<Interval> subtract_intervals(const std::vector<Interval>& a,
                                         const std::vector<Interval>& b) {
  std::vector<Interval> rest;
  size_t j = 0;
  for (const Interval& piece : a) {
    int64_t at = piece.start;
    while (j < b.size() && b[j].end <= at) ++j;
    for (size_t k = j; k < b.size() && b[k].start < piece.end; ++k) {
      if (b[k].start > at) rest.push_back({at, b[k].start});
      at = std::max(at, b[k].end);
    }
    if (at < piece.end) rest.push_back({at, piece.end});
  }
  return rest;
}

}  // namespace monograph::diagnose
