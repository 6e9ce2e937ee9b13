#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "runtime/cuda/timeline.h"

namespace monograph::runtime {
namespace {

constexpr size_t kMaxGaps = 10;

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", mangled or not.
bool is_collective(const GpuActivity& each) {
  return each.name.find("ncclDevKernel") != std::string::npos;
}

// Neither: counts collectives on their stream (comm/nccl/gpu_progress.cc), which takes no time.
bool is_counter(const GpuActivity& each) {
  return each.name == "monograph_count";
}

using Interval = std::pair<int64_t, int64_t>;

// Of activities in order of start, without overlaps.
template <typename Predicate>
std::vector<Interval> merged(const std::vector<GpuActivity>& activities, const Predicate& counts) {
  std::vector<Interval> intervals;
  for (const GpuActivity& each : activities) {
    if (!counts(each)) continue;
    if (!intervals.empty() && each.start_ns <= intervals.back().second) {
      intervals.back().second = std::max(intervals.back().second, each.end_ns);
    } else {
      intervals.emplace_back(each.start_ns, each.end_ns);
    }
  }
  return intervals;
}

int64_t total_ns(const std::vector<Interval>& intervals) {
  int64_t sum = 0;
  for (const auto& [start, end] : intervals) sum += end - start;
  return sum;
}

int64_t shared_ns(const std::vector<Interval>& x, const std::vector<Interval>& y) {
  int64_t sum = 0;
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    const int64_t start = std::max(x[i].first, y[j].first);
    const int64_t end = std::min(x[i].second, y[j].second);
    sum += std::max<int64_t>(0, end - start);
    (x[i].second < y[j].second ? i : j) += 1;
  }
  return sum;
}

}  // namespace

GpuSummary summarize(std::vector<GpuActivity> activities) {
  GpuSummary summary;
  summary.num_activities = static_cast<int64_t>(activities.size());
  if (activities.empty()) return summary;
  std::sort(activities.begin(), activities.end(),
            [](const GpuActivity& x, const GpuActivity& y) { return x.start_ns < y.start_ns; });
  // What comes before the first kernel waits for the recorder rather than for the program.
  const auto is_kernel = [](const GpuActivity& each) {
    return std::string_view(each.category) == "kernel";
  };
  const auto first = std::find_if(activities.begin(), activities.end(), is_kernel);
  if (first != activities.end()) activities.erase(activities.begin(), first);
  const std::vector<Interval> collectives = merged(activities, is_collective);
  const std::vector<Interval> computation = merged(activities, [&](const GpuActivity& each) {
    return is_kernel(each) && !is_collective(each) && !is_counter(each);
  });
  summary.communication_ms = ms(total_ns(collectives));
  summary.exposed_ms = ms(total_ns(collectives) - shared_ns(collectives, computation));
  std::map<std::string, GpuSummary::Row> rows;
  const GpuActivity* latest = &activities.front();  // the one that ends last so far
  int64_t busy_ns = 0;
  for (const GpuActivity& each : activities) {
    GpuSummary::Row& row = rows[each.name];
    row.name = each.name;
    ++row.num_calls;
    row.ms += ms(each.end_ns - each.start_ns);
    if (each.start_ns > latest->end_ns) {
      summary.longest_gaps.push_back({ms(each.start_ns - latest->end_ns), latest->name, each.name});
    }
    const int64_t from = &each == latest ? each.start_ns : std::max(each.start_ns, latest->end_ns);
    busy_ns += std::max<int64_t>(0, each.end_ns - from);
    if (each.end_ns > latest->end_ns) latest = &each;
  }
  summary.busy_ms = ms(busy_ns);
  summary.window_ms = ms(latest->end_ns - activities.front().start_ns);
  std::sort(summary.longest_gaps.begin(), summary.longest_gaps.end(),
            [](const auto& x, const auto& y) { return x.ms > y.ms; });
  summary.longest_gaps.resize(std::min(summary.longest_gaps.size(), kMaxGaps));
  for (auto& [unused, row] : rows) summary.rows.push_back(std::move(row));
  std::sort(summary.rows.begin(), summary.rows.end(),
            [](const auto& x, const auto& y) { return x.ms > y.ms; });
  return summary;
}

std::string to_trace_json(const std::vector<GpuActivity>& activities) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back(
      {{"ph", "M"}, {"pid", 0}, {"name", "process_name"}, {"args", {{"name", "GPU 0"}}}});
  const int64_t origin = activities.empty() ? 0 : activities.front().start_ns;
  for (const GpuActivity& each : activities) {
    nlohmann::json event = {{"ph", "X"},
                            {"pid", 0},
                            {"tid", each.stream},
                            {"cat", each.category},
                            {"name", each.name},
                            {"ts", static_cast<double>(each.start_ns - origin) / 1e3},
                            {"dur", static_cast<double>(each.end_ns - each.start_ns) / 1e3}};
    if (each.num_bytes > 0) event["args"] = {{"bytes", each.num_bytes}};
    events.push_back(std::move(event));
  }
  return nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace monograph::runtime
