#include "diagnose/timeline/overlap.h"

#include <algorithm>
#include <map>
#include <utility>

#include "diagnose/timeline/intervals.h"

namespace monograph::diagnose {
namespace {

struct Lanes {
  std::vector<Interval> communication;
  std::vector<Interval> computation;
  std::vector<Interval> copies;

  void add(const Span& span) {
    auto& lane = span.activity == Activity::kCollective ? communication
                 : span.activity == Activity::kCompute  ? computation
                                                        : copies;
    lane.push_back({span.start_ns, span.end_ns});
  }
};

Overlap overlap_of(Lanes lanes) {
  Overlap overlap;
  std::vector<Interval> communication = merge_intervals(std::move(lanes.communication));
  std::vector<Interval> computation = merge_intervals(std::move(lanes.computation));
  std::vector<Interval> all = std::move(lanes.copies);
  all.insert(all.end(), communication.begin(), communication.end());
  all.insert(all.end(), computation.begin(), computation.end());
  all = merge_intervals(std::move(all));
  overlap.communication_ns = total_length(communication);
  overlap.computation_ns = total_length(computation);
  overlap.both_ns = shared_length(communication, computation);
  overlap.busy_ns = total_length(all);
  if (!all.empty()) overlap.wall_ns = all.back().end - all.front().start;
  return overlap;
}

std::vector<Interval> all_computation(const Timeline& timeline) {
  std::vector<Interval> computation;
  for (const Span& span : timeline.spans) {
    if (span.activity == Activity::kCompute) computation.push_back({span.start_ns, span.end_ns});
  }
  return merge_intervals(std::move(computation));
}

// Length of [start, end) that the merged intervals cover.
int64_t covered(const std::vector<Interval>& merged, int64_t start, int64_t end) {
  auto at = std::lower_bound(merged.begin(), merged.end(), start,
                             [](const Interval& piece, int64_t time) { return piece.end <= time; });
  int64_t length = 0;
  for (; at != merged.end() && at->start < end; ++at) {
    length += std::min(at->end, end) - std::max(at->start, start);
  }
  return length;
}

// Counts one gap that ends with `next`.
void count_gap(Idle& idle, int64_t gap_start, const Span& next) {
  int64_t gap = next.start_ns - gap_start;
  if (gap <= 0) return;
  ++idle.num_gaps;
  if (next.launch_ns > gap_start) {
    idle.host_wait_ns += gap;
  } else if (gap < kKernelGapNs) {
    idle.kernel_wait_ns += gap;
  } else {
    idle.other_ns += gap;
  }
}

double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double Overlap::over_communication() const {
  return percent(both_ns, communication_ns);
}
double Overlap::over_larger() const {
  return percent(both_ns, std::max(communication_ns, computation_ns));
}

Overlap total_overlap(const Timeline& timeline) {
  Lanes lanes;
  for (const Span& span : timeline.spans) lanes.add(span);
  return overlap_of(std::move(lanes));
}

std::vector<Overlap> step_overlaps(const Timeline& timeline) {
  std::vector<Lanes> steps(timeline.steps.size());
  for (const Span& span : timeline.spans) {
    if (span.step >= 0) steps[static_cast<size_t>(span.step)].add(span);
  }
  std::vector<Overlap> result;
  for (Lanes& lanes : steps) result.push_back(overlap_of(std::move(lanes)));
  return result;
}

std::vector<StreamOverlap> stream_overlaps(const Timeline& timeline) {
  std::vector<Interval> computation = all_computation(timeline);
  std::map<std::pair<int16_t, int32_t>, std::vector<Interval>> streams;
  std::map<std::pair<int16_t, int32_t>, int64_t> calls;
  for (const Span& span : timeline.spans) {
    if (span.activity != Activity::kCollective) continue;
    streams[{span.device, span.stream}].push_back({span.start_ns, span.end_ns});
    ++calls[{span.device, span.stream}];
  }
  std::vector<StreamOverlap> result;
  for (auto& [key, intervals] : streams) {
    std::vector<Interval> merged = merge_intervals(std::move(intervals));
    result.push_back({key.second, key.first, calls[key], total_length(merged),
                      shared_length(merged, computation)});
  }
  return result;
}

std::vector<CollectiveOverlap> collective_overlaps(const Timeline& timeline) {
  std::vector<Interval> computation = all_computation(timeline);
  std::map<std::pair<std::string, std::string>, CollectiveOverlap> kinds;
  for (const Span& span : timeline.spans) {
    if (span.activity != Activity::kCollective || span.detail < 0) continue;
    const CollectiveInfo& info = timeline.collectives[static_cast<size_t>(span.detail)];
    const std::string& group = info.description.empty() ? info.group : info.description;
    CollectiveOverlap& kind = kinds[{info.op, group}];
    kind.op = info.op;
    kind.group = group;
    ++kind.num_calls;
    kind.total_ns += span.duration_ns();
    kind.hidden_ns += covered(computation, span.start_ns, span.end_ns);
    int64_t elements = std::max(info.num_elements_in, info.num_elements_out);
    kind.num_elements = kind.num_elements < 0 || elements < 0 ? -1 : kind.num_elements + elements;
  }
  std::vector<CollectiveOverlap> result;
  for (auto& [key, kind] : kinds) result.push_back(std::move(kind));
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.exposed_ns() > b.exposed_ns(); });
  return result;
}

Idle device_idle(const Timeline& timeline) {
  Idle idle;
  int64_t busy_until = 0;
  bool first = true;
  for (const Span& span : timeline.spans) {
    if (!first) count_gap(idle, busy_until, span);
    busy_until = first ? span.end_ns : std::max(busy_until, span.end_ns);
    first = false;
  }
  return idle;
}

std::vector<StreamIdle> stream_idles(const Timeline& timeline) {
  struct Running {
    StreamIdle result;
    int64_t busy_until = 0;
  };
  std::map<std::pair<int16_t, int32_t>, Running> streams;
  for (const Span& span : timeline.spans) {
    auto [found, is_new] = streams.try_emplace({span.device, span.stream});
    Running& running = found->second;
    if (is_new) {
      running.result.stream = span.stream;
      running.result.device = span.device;
      running.busy_until = span.start_ns;
    }
    count_gap(running.result.idle, running.busy_until, span);
    running.result.busy_ns +=
        std::max<int64_t>(0, span.end_ns - std::max(running.busy_until, span.start_ns));
    running.busy_until = std::max(running.busy_until, span.end_ns);
  }
  std::vector<StreamIdle> result;
  for (auto& [key, running] : streams) result.push_back(running.result);
  return result;
}

}  // namespace monograph::diagnose
