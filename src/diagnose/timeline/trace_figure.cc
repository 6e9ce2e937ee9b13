#include "diagnose/timeline/trace_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnose/timeline/intervals.h"

namespace monograph::diagnose {
namespace {

constexpr int kColumns = 72;       // of the text
constexpr int64_t kPixels = 1000;  // of the drawing
constexpr int kLane = 26;
constexpr int kLeft = 110;
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

// Rectangles of one lane; pieces that fall on one pixel become one.
void draw_lane(std::string& svg, const std::vector<Interval>& merged, const Window& window, int y,
               std::string_view fill) {
  auto pixel = [&](int64_t at) {
    return static_cast<int64_t>(static_cast<double>(at - window.start) * kPixels /
                                static_cast<double>(window.length()));
  };
  for (size_t i = 0; i < merged.size();) {
    int64_t x = pixel(merged[i].start);
    int64_t to = std::max(x + 1, pixel(merged[i].end));
    for (++i; i < merged.size() && pixel(merged[i].start) <= to; ++i)
      to = std::max(to, pixel(merged[i].end));
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
                       kLeft + x, y, to - x, kLane - 8, fill);
  }
}

struct Lane {
  std::map<Activity, std::vector<Interval>> work;
  int64_t busy_ns = 0;
};

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
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"100%\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">",
      kLeft + kPixels + 10, height);
  int y = 20;
  for (const Step& step : timeline.steps) {
    double x = static_cast<double>(step.start_ns - window.start) * kPixels /
               static_cast<double>(window.length());
    if (x < 0 || x > kPixels || timeline.steps.size() > 60) continue;
    svg += fmt::format("<line x1=\"{0:.0f}\" x2=\"{0:.0f}\" y1=\"14\" y2=\"{1}\" stroke=\"#bbb\"/>",
                       kLeft + x, height - 20);
    if (timeline.steps.size() <= 12) {
      svg += fmt::format("<text x=\"{:.0f}\" y=\"11\" fill=\"#888\">{}</text>", kLeft + x + 2,
                         step.name.substr(0, 24));
    }
  }
  auto label = [&](std::string_view text) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
                       kLeft - 8, y + 13, text);
  };
  for (auto& [key, lane] : order) {
    label(fmt::format("GPU {} stream {}", key.first, key.second));
    for (auto& [activity, intervals] : lane->work) {
      draw_lane(svg, merge_intervals(std::move(intervals)), window, y, colour(activity));
    }
    y += kLane;
  }
  label("exposed");
  draw_lane(svg, exposed, window, y, "#c0392b");
  y += kLane + 14;
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" fill=\"#555\"><tspan fill=\"#5b8fd0\">■</tspan> computation  <tspan "
      "fill=\"#e08a3c\">■</tspan> "
      "communication  <tspan fill=\"#5aa469\">■</tspan> copies  <tspan fill=\"#c0392b\">■</tspan> "
      "communication that nothing "
      "hides; {:.3f} ms in all</text>",
      kLeft, y, static_cast<double>(window.length()) / 1e6);
  return svg + "</svg>";
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
  figure.text = "computation    " + bar(computation, window) + "\n";
  if (!communication.empty()) {
    figure.text += "communication  " + bar(communication, window) + "\n";
    figure.text += "exposed        " + bar(exposed, window) + "\n";
  }
  figure.svg = to_svg(timeline, window, exposed);
  return figure;
}

}  // namespace monograph::diagnose
