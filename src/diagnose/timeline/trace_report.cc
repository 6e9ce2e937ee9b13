#include "diagnose/timeline/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "diagnose/input.h"
#include "diagnose/source.h"
#include "diagnose/timeline/collectives.h"
#include "diagnose/timeline/copies.h"
#include "diagnose/timeline/kineto.h"
#include "diagnose/timeline/nsight.h"
#include "diagnose/timeline/overlap.h"
#include "diagnose/timeline/trace_figure.h"
#include "diagnose/timeline/trace_findings.h"

namespace monograph::diagnose {
namespace {

double to_ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

// Three decimals: a nanosecond in milliseconds would only hide the figure.
double rounded(double value) {
  return static_cast<double>(static_cast<int64_t>(value * 1000 + 0.5)) / 1000;
}

std::string title_of(const Timeline& timeline) {
  return timeline.rank >= 0 ? fmt::format("rank {}", timeline.rank) : timeline.source;
}

// Which work the figures count.
std::string counted(const Timeline& timeline) {
  int64_t outside = std::count_if(timeline.spans.begin(), timeline.spans.end(),
                                  [](const Span& span) { return span.step < 0; });
  if (timeline.steps.empty())
    return "no steps are marked in the trace: all device work is counted as one";
  std::string range =
      timeline.steps.size() == 1
          ? timeline.steps.front().name
          : fmt::format("{} to {}", timeline.steps.front().name, timeline.steps.back().name);
  return fmt::format(
      "'all' counts all device work in the trace; steps: {} ({}, the last one too), each with the "
      "work launched in it; {} of {} "
      "pieces of work belong to none",
      range, timeline.steps.size(), outside, timeline.spans.size());
}

std::vector<Cell> overlap_row(std::string name, const Overlap& overlap) {
  return {std::move(name),
          rounded(to_ms(overlap.wall_ns)),
          rounded(to_ms(overlap.computation_ns)),
          rounded(to_ms(overlap.communication_ns)),
          rounded(to_ms(overlap.both_ns)),
          rounded(to_ms(overlap.exposed_ns())),
          rounded(overlap.over_communication()),
          rounded(overlap.over_larger())};
}

Table overlap_table(const Timeline& timeline) {
  Table table{"overlap",
              {"of", "wall ms", "computation ms", "communication ms", "both ms", "exposed ms",
               "% of communication", "% of the larger"},
              {}};
  table.rows.push_back(overlap_row("all", total_overlap(timeline)));
  std::vector<Overlap> steps = step_overlaps(timeline);
  for (size_t i = 0; i < steps.size(); ++i)
    table.rows.push_back(overlap_row(timeline.steps[i].name, steps[i]));
  for (const StreamOverlap& stream : stream_overlaps(timeline)) {
    Overlap overlap;
    overlap.communication_ns = stream.communication_ns;
    overlap.both_ns = stream.both_ns;
    std::vector<Cell> row = overlap_row(fmt::format("stream {}", stream.stream), overlap);
    row[1] = row[2] = row[7] = std::string();
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table idle_table(const Timeline& timeline) {
  Table table{"idle time",
              {"of", "busy ms", "idle ms", "host wait ms", "kernel wait ms", "other ms", "gaps"},
              {}};
  auto row = [&](std::string name, int64_t busy_ns, const Idle& idle) {
    table.rows.push_back({std::move(name), rounded(to_ms(busy_ns)), rounded(to_ms(idle.total_ns())),
                          rounded(to_ms(idle.host_wait_ns)), rounded(to_ms(idle.kernel_wait_ns)),
                          rounded(to_ms(idle.other_ns)), idle.num_gaps});
  };
  row("the device", total_overlap(timeline).busy_ns, device_idle(timeline));
  for (const StreamIdle& stream : stream_idles(timeline)) {
    row(fmt::format("stream {}", stream.stream), stream.busy_ns, stream.idle);
  }
  return table;
}

// -1 where the trace does not say.
Cell elements_cell(int64_t count) {
  return count < 0 ? Cell("-") : Cell(count);
}

Table collective_table(const Timeline& timeline) {
  Table table{
      "collectives", {"operation", "group", "calls", "elements", "total ms", "exposed ms"}, {}};
  for (const CollectiveOverlap& kind : collective_overlaps(timeline)) {
    table.rows.push_back({kind.op, kind.group, kind.num_calls, elements_cell(kind.num_elements),
                          rounded(to_ms(kind.total_ns)), rounded(to_ms(kind.exposed_ns()))});
  }
  return table;
}

Table drift_table(const Timeline& timeline) {
  Table table{"when collectives began, after their launch",
              {"operation", "group", "elements", "calls", "mean drift ms", "largest ms",
               "mostly because", "waits for peers ms"},
              {}};
  constexpr size_t kMaxRows = 20;
  for (const CollectiveDrift& drift : collective_drifts(timeline)) {
    if (table.rows.size() == kMaxRows) break;
    auto most = std::max_element(drift.calls_by_reason.begin(), drift.calls_by_reason.end());
    auto reason = static_cast<LateReason>(most - drift.calls_by_reason.begin());
    std::string because = *most == 0 ? "launch unknown" : std::string(name(reason));
    if (reason == LateReason::kKernel || reason == LateReason::kBusy)
      because += " " + drift.kernel.substr(0, 40);
    table.rows.push_back({drift.op, drift.group, elements_cell(drift.num_elements), drift.num_calls,
                          rounded(to_ms(drift.drift_ns) / static_cast<double>(drift.num_calls)),
                          rounded(to_ms(drift.max_drift_ns)), std::move(because),
                          rounded(to_ms(drift.peer_wait_ns))});
  }
  return table;
}

Table copy_table(const Timeline& timeline) {
  Table table{"copies", {"kind", "copies", "bytes", "total ms", "GB/s"}, {}};
  for (const CopyKind& kind : copy_kinds(timeline)) {
    table.rows.push_back({kind.name, kind.num_copies, kind.num_bytes, rounded(to_ms(kind.total_ns)),
                          rounded(kind.gigabytes_per_second())});
  }
  return table;
}

Table kernel_table(const Timeline& timeline) {
  Table table{"kernels", {"name", "calls", "total ms", "% of busy"}, {}};
  std::map<uint32_t, std::pair<int64_t, int64_t>> kernels;  // name -> calls, time
  for (const Span& span : timeline.spans) {
    if (span.activity != Activity::kCompute && span.activity != Activity::kCollective) continue;
    ++kernels[span.name].first;
    kernels[span.name].second += span.duration_ns();
  }
  std::vector<std::pair<uint32_t, std::pair<int64_t, int64_t>>> order(kernels.begin(),
                                                                      kernels.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  if (order.size() > 15) order.resize(15);
  int64_t busy = std::max<int64_t>(1, total_overlap(timeline).busy_ns);
  for (const auto& [id, kernel] : order) {
    std::string kernel_name = timeline.names[id];
    if (kernel_name.size() > 70) kernel_name = kernel_name.substr(0, 67) + "...";
    table.rows.push_back(
        {std::move(kernel_name), kernel.first, rounded(to_ms(kernel.second)),
         rounded(100 * static_cast<double>(kernel.second) / static_cast<double>(busy))});
  }
  return table;
}

std::string summary(const Timeline& timeline) {
  Overlap overlap = total_overlap(timeline);
  if (overlap.communication_ns == 0) {
    return fmt::format("no communication; {:.3f} ms of computation in {:.3f} ms",
                       to_ms(overlap.computation_ns), to_ms(overlap.wall_ns));
  }
  return fmt::format(
      "overlap {:.3f} % of communication, {:.3f} % of the larger of communication and computation; "
      "{:.3f} ms of {:.3f} ms of "
      "communication is exposed",
      overlap.over_communication(), overlap.over_larger(), to_ms(overlap.exposed_ns()),
      to_ms(overlap.communication_ns));
}

Section describe_trace(const Timeline& timeline) {
  Section section;
  section.title = fmt::format("trace of {}", title_of(timeline));
  section.lines.push_back(fmt::format("{} from {}: {} events, {} pieces of device work",
                                      timeline.format, timeline.source, timeline.num_events,
                                      timeline.spans.size()));
  if (timeline.spans.empty()) return section;
  section.lines.push_back(counted(timeline));
  section.lines.push_back(summary(timeline));
  section.figures.push_back(draw_timeline(timeline));
  section.tables.push_back(overlap_table(timeline));
  section.tables.push_back(idle_table(timeline));
  for (Table& table : std::vector<Table>{collective_table(timeline), drift_table(timeline),
                                         copy_table(timeline), kernel_table(timeline)}) {
    if (!table.rows.empty()) section.tables.push_back(std::move(table));
  }
  return section;
}

void add_statistics(const Timeline& timeline, Report& report) {
  Overlap overlap = total_overlap(timeline);
  std::string prefix = timeline.rank >= 0 ? fmt::format("rank_{}_", timeline.rank) : "";
  report.statistics.push_back(
      {prefix + "overlap_percent_of_communication", overlap.over_communication()});
  report.statistics.push_back({prefix + "overlap_percent_of_larger", overlap.over_larger()});
  report.statistics.push_back({prefix + "exposed_communication_ms", to_ms(overlap.exposed_ns())});
  report.statistics.push_back({prefix + "device_busy_ms", to_ms(overlap.busy_ns)});
  report.statistics.push_back({prefix + "wall_ms", to_ms(overlap.wall_ns)});
}

Table arrival_table(const Arrivals& arrivals) {
  Table table{
      "who comes last to collectives",
      {"rank", "last", "made others wait ms", "waited ms", "computation ms", "host wait ms"},
      {}};
  for (const RankArrival& rank : arrivals.ranks) {
    table.rows.push_back({int64_t{rank.rank}, rank.num_last, rounded(to_ms(rank.made_wait_ns)),
                          rounded(to_ms(rank.waited_ns)), rounded(to_ms(rank.computation_ns)),
                          rounded(to_ms(rank.host_wait_ns))});
  }
  return table;
}

// Traces of different ranks of one job: those with distinct ranks, in order.
void compare_ranks(std::vector<const Timeline*> timelines, Report& report) {
  std::stable_sort(timelines.begin(), timelines.end(),
                   [](const Timeline* a, const Timeline* b) { return a->rank < b->rank; });
  auto same =
      std::adjacent_find(timelines.begin(), timelines.end(),
                         [](const Timeline* a, const Timeline* b) { return a->rank == b->rank; });
  if (timelines.size() < 2 || same != timelines.end()) return;
  Arrivals arrivals = compare_arrivals(timelines);
  if (arrivals.num_matched == 0) return;
  int64_t wall = 0;
  for (const Timeline* timeline : timelines)
    wall = std::max(wall, total_overlap(*timeline).wall_ns);
  for (Finding& finding : find_stragglers(arrivals, wall))
    report.findings.push_back(std::move(finding));
  Section section;
  section.title = "ranks compared";
  section.lines.push_back(
      fmt::format("{} collectives are in the traces of several ranks and compared by how long each "
                  "rank is in them; {} are not",
                  arrivals.num_matched, arrivals.num_unmatched));
  section.tables.push_back(arrival_table(arrivals));
  report.sections.push_back(std::move(section));
}

}  // namespace

bool accepts_kineto(std::string_view head, std::string_view /*path*/) {
  return looks_like_kineto(head);
}

std::unique_ptr<Facts> read_kineto_file(Input& input) {
  auto facts = std::make_unique<TraceFacts>();
  auto read = [&](char* buffer, size_t capacity) { return input.read(buffer, capacity); };
  facts->timelines.push_back(read_kineto(input.path(), read, input.options()));
  Timeline& timeline = facts->timelines.front();
  if (timeline.rank < 0) timeline.rank = rank_of_name(input.path());  // older profilers do not say
  facts->rank = facts->timelines.front().rank;
  return facts;
}

bool accepts_nsight(std::string_view head, std::string_view /*path*/) {
  return looks_like_sqlite(head);
}

std::unique_ptr<Facts> read_nsight(Input& input) {
  constexpr size_t kMaxBytes = size_t{1} << 30;  // a compressed database is unpacked in memory
  auto facts = std::make_unique<TraceFacts>();
  facts->timelines = input.is_compressed()
                         ? read_nsight_bytes(input.read_all(kMaxBytes), input.path())
                         : read_nsight_file(input.path());
  if (facts->timelines.size() == 1) {
    Timeline& only = facts->timelines.front();
    if (only.rank < 0) only.rank = rank_of_name(input.path());
    facts->rank = only.rank;
  }
  return facts;
}

void conclude_traces(const FactsList& facts, Report& report) {
  std::vector<const Timeline*> with_rank;
  std::map<int, int> files_of_rank;
  for (const TraceFacts* file : facts_of<TraceFacts>(facts)) {
    for (const Timeline& timeline : file->timelines) ++files_of_rank[timeline.rank];
  }
  for (const TraceFacts* file : facts_of<TraceFacts>(facts)) {
    for (const Timeline& timeline : file->timelines) {
      for (Finding& finding : find_in_trace(timeline)) {
        // Where the rank does not tell which trace is meant.
        if (files_of_rank[timeline.rank] > 1) finding.where.file = timeline.source;
        report.findings.push_back(std::move(finding));
      }
      report.sections.push_back(describe_trace(timeline));
      if (timeline.spans.empty()) continue;
      add_statistics(timeline, report);
      if (timeline.rank >= 0) with_rank.push_back(&timeline);
    }
  }
  compare_ranks(std::move(with_rank), report);
}

}  // namespace monograph::diagnose
