#include "diagnose/timeline/copies.h"

#include <algorithm>
#include <map>
#include <utility>

namespace monograph::diagnose {

double CopyKind::gigabytes_per_second() const {
  return total_ns <= 0 || num_bytes < 0
             ? 0
             : static_cast<double>(num_bytes) / static_cast<double>(total_ns);
}

std::vector<CopyKind> copy_kinds(const Timeline& timeline) {
  std::map<uint32_t, CopyKind> kinds;
  for (const Span& span : timeline.spans) {
    if (span.activity != Activity::kCopy || span.detail < 0) continue;
    const CopyInfo& info = timeline.copies[static_cast<size_t>(span.detail)];
    CopyKind& kind = kinds[span.name];
    kind.name = timeline.name_of(span);
    ++kind.num_copies;
    kind.num_bytes =
        kind.num_bytes < 0 || info.num_bytes < 0 ? -1 : kind.num_bytes + info.num_bytes;
    kind.total_ns += span.duration_ns();
    kind.is_pageable = kind.is_pageable || info.pageable;
  }
  std::vector<CopyKind> result;
  for (auto& [name, kind] : kinds) result.push_back(std::move(kind));
  std::stable_sort(result.begin(), result.end(),
                   [](const CopyKind& a, const CopyKind& b) { return a.total_ns > b.total_ns; });
  return result;
}

std::vector<RepeatedCopy> repeated_copies(const Timeline& timeline) {
  struct Tally {
    RepeatedCopy copy;
    std::map<int32_t, int64_t> by_step;
  };
  std::map<std::pair<uint32_t, int64_t>, Tally> tallies;
  for (const Span& span : timeline.spans) {
    if (span.activity != Activity::kCopy || span.detail < 0) continue;
    if (span.step < 0 && !timeline.steps.empty()) continue;
    int64_t num_bytes = timeline.copies[static_cast<size_t>(span.detail)].num_bytes;
    if (num_bytes < 0) continue;
    Tally& tally = tallies[{span.name, num_bytes}];
    tally.copy.name = timeline.name_of(span);
    tally.copy.num_bytes = num_bytes;
    ++tally.copy.num_copies;
    tally.copy.total_ns += span.duration_ns();
    ++tally.by_step[span.step];
  }
  std::vector<RepeatedCopy> result;
  for (auto& [key, tally] : tallies) {
    std::vector<int64_t> counts;
    for (const auto& [step, count] : tally.by_step) counts.push_back(count);
    counts.resize(std::max(counts.size(), timeline.steps.size()), 0);
    std::sort(counts.begin(), counts.end());
    tally.copy.per_step = counts[counts.size() / 2];
    if (tally.copy.per_step >= kRepeats) result.push_back(std::move(tally.copy));
  }
  std::stable_sort(result.begin(), result.end(), [](const RepeatedCopy& a, const RepeatedCopy& b) {
    return a.total_ns > b.total_ns;
  });
  return result;
}

}  // namespace monograph::diagnose
