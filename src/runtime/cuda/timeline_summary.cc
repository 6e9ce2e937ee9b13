#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/cuda/timeline.h"

namespace monograph::runtime {
namespace {

constexpr size_t kMaxGaps = 10;

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
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
