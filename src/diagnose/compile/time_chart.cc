#include "diagnose/compile/time_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnose/svg.h"

namespace monograph::diagnose {
namespace {

constexpr double kWidth = 1100, kLabel = 70, kRow = 22;
constexpr std::size_t kMaxRanks = 64, kMaxBars = 4000;

// One colour a function, chosen so that neighbours in the list differ.
std::string colour_of(std::size_t index) {
  constexpr const char* kColours[] = {"#4878a8", "#d8843c", "#5a9a68", "#b2566b",
                                      "#8268a8", "#8c7040", "#3f9aa4", "#a0a23c"};
  return kColours[index % 8];
}

}  // namespace

void add_time_chart(const CompileJob& job, Section& section) {
  std::map<int, std::vector<const Compilation*>> by_rank;
  std::map<std::string, std::size_t> functions;
  double begin = 0, end = 0;
  std::size_t bars = 0;
  for (const auto& [rank, value] : job.prefer_structured(&CompileFacts::compilations)) {
    if (value->start <= 0 || value->seconds <= 0 || !value->finished || ++bars > kMaxBars) continue;
    by_rank[rank].push_back(value);
    functions.try_emplace(value->function.name, functions.size());
    if (begin == 0 || value->start < begin) begin = value->start;
    end = std::max(end, value->start + value->seconds);
  }
  if (by_rank.empty() || end <= begin) return;
  const std::size_t rows = std::min(by_rank.size(), kMaxRanks);
  Svg svg(kWidth, static_cast<double>(rows) * kRow + 40);
  const double scale = (kWidth - kLabel - 10) / (end - begin);
  double y = 6;
  std::size_t shown = 0;
  for (const auto& [rank, list] : by_rank) {
    if (shown++ == kMaxRanks) break;
    svg.text(4, y + 14, rank < 0 ? "process" : fmt::format("rank {}", rank), 12);
    for (const Compilation* one : list) {
      svg.bar(kLabel + (one->start - begin) * scale, y, std::max(1.0, one->seconds * scale),
              kRow - 5, colour_of(functions[one->function.name]),
              fmt::format("{} [{}]{} {:.2f} s", one->function.name, one->compile_id,
                          one->is_backward ? " backward" : "", one->seconds));
    }
    y += kRow;
  }
  svg.axis(kLabel, y + 2, kWidth - kLabel - 10, end - begin, "s");
  section.figures.push_back({"When each rank compiled (hover for names)", "", svg.finish()});
}

}  // namespace monograph::diagnose
