#include "diagnose/timeline/trace_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnose/svg.h"
#include "diagnose/timeline/intervals.h"

namespace monograph::diagnose {
namespace {

constexpr int kColumns = 72;       // of the text
constexpr int64_t kPixels = 1000;  // of the drawing
constexpr int kLane = 26;
constexpr int kLeft = 130;
constexpr size_t kMaxLanes = 12;

struct Window {
  int64_t start = 0;
  int64_t end = 0;
  int64_t length() const { return std::max<int64_t>(1, end - start); }
};

std::vector<Interval> of(const Timeline& timeline, Activity activity) {
  std::vector<Interval> intervals;
  for (const Span& span : timeline.spans) {
    if (span.activity == activity) intervals.push_back({span.start_ns, span.end_ns});
  }
  return merge_intervals(std::move(intervals));
}

// The share of each of `count` equal slices of the window that the intervals cover, 0 to 1.
std::vector<double> shares(const std::vector<Interval>& merged, const Window& window, int count) {
  std::vector<double> result(static_cast<size_t>(count), 0);
  double slice = static_cast<double>(window.length()) / count;
  for (const Interval& interval : merged) {
    double from = static_cast<double>(interval.start - window.start) / slice;
    double to = static_cast<double>(interval.end - window.start) / slice;
    for (int i = std::max(0, static_cast<int>(from)); i < count && i < to; ++i) {
      result[static_cast<size_t>(i)] += std::min<double>(to, i + 1) - std::max<double>(from, i);
    }
  }
  return result;
}

std::string bar(const std::vector<Interval>& merged, const Window& window) {
  static constexpr std::array<std::string_view, 9> kBlocks{" ", "▁", "▂", "▃", "▄",
                                                           "▅", "▆", "▇", "█"};
  std::string text;
  for (double share : shares(merged, window, kColumns)) {
    int level = share <= 0 ? 0 : std::clamp(static_cast<int>(share * 8 + 0.5), 1, 8);
    text += kBlocks[static_cast<size_t>(level)];
  }
  return text;
}

std::string_view colour(Activity activity) {
  switch (activity) {
    case Activity::kCompute:
      return "#5b8fd0";
    case Activity::kCollective:
      return "#e08a3c";
    case Activity::kCopy:
      return "#5aa469";
    case Activity::kMemset:
      return "#a8a8a8";
  }
  return "";
}

// Bars of one lane; pieces that fall on one pixel become one.
void draw_lane(Svg& svg, const std::vector<Interval>& merged, const Window& window, int y,
               std::string_view fill, std::string_view what) {
  auto pixel = [&](int64_t at) {
    return static_cast<int64_t>(static_cast<double>(at - window.start) * kPixels /
                                static_cast<double>(window.length()));
  };
  for (size_t i = 0; i < merged.size();) {
    int64_t start = merged[i].start;
    int64_t x = pixel(start);
    int64_t to = std::max(x + 1, pixel(merged[i].end));
    for (++i; i < merged.size() && pixel(merged[i].start) <= to; ++i)
      to = std::max(to, pixel(merged[i].end));
    std::string hint = fmt::format("{}, {:.3f} to {:.3f} ms", what,
                                   static_cast<double>(start - window.start) / 1e6,
                                   static_cast<double>(merged[i - 1].end - window.start) / 1e6);
    svg.bar(static_cast<double>(kLeft + x), y, static_cast<double>(to - x), kLane - 8, fill, hint);
  }
}

struct Lane {
  std::map<Activity, std::vector<Interval>> work;
  int64_t busy_ns = 0;
};

std::string_view word(Activity activity) {
  switch (activity) {
    case Activity::kCompute:
      return "computation";
    case Activity::kCollective:
      return "communication";
    case Activity::kCopy:
      return "copies";
    case Activity::kMemset:
      return "memset";
  }
  return "";
}

void draw_steps(Svg& svg, const Timeline& timeline, const Window& window, int height) {
  if (timeline.steps.size() > 60) return;
  for (const Step& step : timeline.steps) {
    double x = static_cast<double>(step.start_ns - window.start) * kPixels /
               static_cast<double>(window.length());
    if (x < 0 || x > kPixels) continue;
    svg.line(kLeft + x, 14, kLeft + x, height - 20, "#bbb");
    if (timeline.steps.size() <= 12)
      svg.text(kLeft + x + 2, 11, step.name.substr(0, 24), 11, "start", "#888");
  }
}

std::string to_svg(const Timeline& timeline, const Window& window,
                   const std::vector<Interval>& exposed) {
  std::map<std::pair<int16_t, int32_t>, Lane> lanes;
  for (const Span& span : timeline.spans) {
    Lane& lane = lanes[{span.device, span.stream}];
    lane.work[span.activity].push_back({span.start_ns, span.end_ns});
    lane.busy_ns += span.duration_ns();
  }
  std::vector<std::pair<std::pair<int16_t, int32_t>, Lane*>> order;
  for (auto& [key, lane] : lanes) order.emplace_back(key, &lane);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second->busy_ns > b.second->busy_ns;
  });
  if (order.size() > kMaxLanes) order.resize(kMaxLanes);
  int height = static_cast<int>(order.size() + 2) * kLane + 24;
  Svg svg(kLeft + kPixels + 10, height);
  draw_steps(svg, timeline, window, height);
  int y = 20;
  for (auto& [key, lane] : order) {
    svg.text(kLeft - 8, y + 13, fmt::format("GPU {} stream {}", key.first, key.second), 12, "end",
             "#555");
    for (auto& [activity, intervals] : lane->work) {
      draw_lane(svg, merge_intervals(std::move(intervals)), window, y, colour(activity),
                word(activity));
    }
    y += kLane;
  }
  svg.text(kLeft - 8, y + 13, "exposed", 12, "end", "#555");
  draw_lane(svg, exposed, window, y, "#c0392b", "communication that nothing hides");
  y += kLane + 14;
  double x = kLeft;
  for (Activity activity : {Activity::kCompute, Activity::kCollective, Activity::kCopy}) {
    svg.bar(x, y - 9, 10, 10, colour(activity), "");
    svg.text(x + 14, y, word(activity), 12, "start", "#555");
    x += 130;
  }
  svg.text(x, y, fmt::format("{:.3f} ms in all", static_cast<double>(window.length()) / 1e6), 12,
           "start", "#555");
  return svg.finish();
}

}  // namespace

Figure draw_timeline(const Timeline& timeline) {
  Figure figure;
  if (timeline.spans.empty()) return figure;
  Window window{timeline.spans.front().start_ns, 0};
  for (const Span& span : timeline.spans) window.end = std::max(window.end, span.end_ns);
  std::vector<Interval> computation = of(timeline, Activity::kCompute);
  std::vector<Interval> communication = of(timeline, Activity::kCollective);
  std::vector<Interval> exposed = subtract_intervals(communication, computation);
  figure.title =
      fmt::format("device work over {:.3f} ms", static_cast<double>(window.length()) / 1e6);
  figure.text = "    computation    " + bar(computation, window) + "\n";
  if (!communication.empty()) {
    figure.text += "    communication  " + bar(communication, window) + "\n";
    figure.text += "    exposed        " + bar(exposed, window) + "\n";
  }
  figure.svg = to_svg(timeline, window, exposed);
  return figure;
}

}  // namespace monograph::diagnose
