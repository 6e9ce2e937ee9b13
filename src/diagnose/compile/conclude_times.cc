#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "diagnose/compile/cache_misses.h"
#include "diagnose/compile/job.h"
#include "diagnose/compile/time_chart.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

// A rank is slow if it takes this many times the median, and this many seconds more.
constexpr double kSlowRatio = 1.5;
constexpr double kSlowSeconds = 1.0;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool is_slow(double value, double typical, std::size_t num_ranks) {
  // Two ranks do not tell which of them is usual: ask for more.
  const double ratio = num_ranks > 2 ? kSlowRatio : 2 * kSlowRatio;
  return value > ratio * typical && value - typical > kSlowSeconds;
}

// The same compilation on each rank: function, how many times compiled before, direction.
using CompileKey = std::tuple<std::string, int, bool>;

std::map<CompileKey, std::map<int, const Compilation*>> align(const CompileJob& job) {
  std::map<CompileKey, std::map<int, const Compilation*>> aligned;
  std::map<std::tuple<int, std::string, bool>, int> seen;
  for (const auto& [rank, value] : job.prefer_structured(&CompileFacts::compilations)) {
    if (value->seconds < 0 || !value->finished) continue;
    std::string function = fmt::format("{}|{}|{}", value->function.name,
                                       base_name(value->function.file), value->function.line);
    if (value->function.name.empty()) function = value->compile_id;
    const int nth = seen[{rank, function, value->is_backward}]++;
    aligned[{function, nth, value->is_backward}][rank] = value;
  }
  return aligned;
}

// The phase in which `slow` exceeds the median of all ranks most.
std::string slow_phase(const Compilation& slow, const std::map<int, const Compilation*>& all,
                       double& excess) {
  std::string worst;
  excess = 0;
  for (const auto& [phase, seconds] : slow.phases) {
    std::vector<double> others;
    for (const auto& [rank, value] : all) {
      const auto found = value->phases.find(phase);
      others.push_back(found == value->phases.end() ? 0 : found->second);
    }
    const double more = seconds - median(others);
    if (more > excess) {
      excess = more;
      worst = phase;
    }
  }
  return worst;
}

std::string phase_advice(const std::string& phase) {
  if (phase == "triton" || phase == "code generation") {
    return "compare its kernel cache (TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR: cold, on a slow "
           "or shared disk?) and its CPU load (TORCHINDUCTOR_COMPILE_THREADS, cores bound to the "
           "rank)";
  }
  return "compare the rank's CPU binding, load and disk with the others', and whether its compiler "
         "cache was cold";
}

// The cache lookup that missed on this rank and hit on others; nullptr if there is none.
const CacheSplit* split_of(const std::vector<CacheSplit>& splits, int rank,
                           const std::string& compile_id) {
  for (const CacheSplit& split : splits) {
    if (split.compile_id == compile_id && split.missed.contains(rank)) return &split;
  }
  return nullptr;
}

void find_stragglers(const CompileJob& job, Report& report) {
  const std::vector<CacheSplit> splits = find_splits(job);
  for (const auto& [key, by_rank] : align(job)) {
    if (by_rank.size() < 2) continue;
    std::vector<double> times;
    for (const auto& [rank, value] : by_rank) times.push_back(value->seconds);
    const double typical =
        by_rank.size() > 2 ? median(times) : *std::min_element(times.begin(), times.end());
    Finding finding;
    double longest = 0;
    const Compilation* worst = nullptr;
    for (const auto& [rank, value] : by_rank) {
      if (!is_slow(value->seconds, typical, by_rank.size())) continue;
      finding.where.ranks.push_back(rank);
      if (value->seconds > longest) {
        longest = value->seconds;
        worst = value;
      }
    }
    if (worst == nullptr) continue;
    double excess = 0;
    const std::string phase = slow_phase(*worst, by_rank, excess);
    finding.code = "compile_straggler";
    finding.weight = longest - typical;
    finding.where.frame = frame_label(worst->function.name, worst->compile_id);
    set_place(finding, worst->function);
    finding.what = fmt::format(
        "{} took {:.1f} s to compile {}{}, the others {:.1f} s",
        describe_ranks(finding.where.ranks), longest, std::get<2>(key) ? "the backward of " : "",
        worst->function.name.empty() ? "a graph" : worst->function.name, typical);
    finding.why = phase.empty() ? "the log gives no phases"
                                : fmt::format("{:.1f} s more in phase '{}'", excess, phase);
    finding.why += "; all other ranks wait in their next collective";
    finding.advice = phase_advice(phase);
    const CacheSplit* split = split_of(splits, finding.where.ranks.front(), worst->compile_id);
    if (split != nullptr) {
      if (split->filled) finding.severity = Severity::kNote;
      finding.why += "; " + explain_split(*split);
      finding.advice = split_advice(*split);
    }
    for (const auto& [rank, value] : by_rank) {
      std::string line = fmt::format("rank {}: {:.2f} s", rank, value->seconds);
      for (const auto& [name, seconds] : value->phases) {
        line += fmt::format("  {} {:.2f}", name, seconds);
      }
      if (finding.evidence.size() < 16) finding.evidence.push_back(std::move(line));
    }
    report.findings.push_back(std::move(finding));
  }
}

// One compilation that takes far more than the others of its process: worth a look, no fault.
void find_outliers(const CompileJob& job, Report& report) {
  constexpr double kRatio = 5, kSeconds = 10;
  std::map<int, std::vector<const Compilation*>> by_rank;
  for (const auto& [rank, value] : job.prefer_structured(&CompileFacts::compilations)) {
    if (value->seconds > 0) by_rank[rank].push_back(value);
  }
  std::set<std::string> told;
  for (const auto& [rank, list] : by_rank) {
    if (list.size() < 4) continue;
    std::vector<double> times;
    for (const Compilation* one : list) times.push_back(one->seconds);
    const double typical = median(times);
    for (const Compilation* one : list) {
      if (one->seconds < kSeconds || one->seconds < kRatio * typical) continue;
      if (!told.insert(one->function.name + one->compile_id).second) continue;
      const auto phase =
          std::max_element(one->phases.begin(), one->phases.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      Finding finding;
      finding.code = "slow_compile";
      finding.severity = Severity::kNote;
      finding.weight = one->seconds;
      if (rank >= 0) finding.where.ranks = {rank};
      finding.where.frame = frame_label(one->function.name, one->compile_id);
      set_place(finding, one->function);
      finding.what = fmt::format("compiling {}{} took {:.1f} s, others {:.1f} s",
                                 one->is_backward ? "the backward of " : "", one->function.name,
                                 one->seconds, typical);
      if (phase != one->phases.end()) {
        finding.why = fmt::format("{:.1f} s of it in phase '{}'", phase->second, phase->first);
      }
      finding.advice =
          "keep the cache folder between runs; compile repeated blocks once "
          "(torch.compile on the layer, not the model)";
      report.findings.push_back(std::move(finding));
    }
  }
}

// Begun and not ended when the log ends.
void find_unfinished(const CompileJob& job, Report& report) {
  std::map<std::string, std::pair<const Compilation*, std::set<int>>> unfinished;
  std::set<int> ranks;
  for (const auto& [rank, value] : job.prefer_structured(&CompileFacts::compilations)) {
    ranks.insert(rank);
    if (value->finished || value->function.name.empty()) continue;
    auto& [first, where] =
        unfinished[fmt::format("{}|{}", value->function.name, value->function.line)];
    if (first == nullptr) first = value;
    where.insert(rank);
  }
  for (const auto& [key, entry] : unfinished) {
    const Compilation& value = *entry.first;
    const bool some = entry.second.size() < ranks.size();
    Finding finding;
    finding.code = "compile_unfinished";
    finding.severity = some ? Severity::kWarning : Severity::kNote;
    finding.weight = 60;
    finding.where.ranks = known_ranks(entry.second);
    finding.where.frame = frame_label(value.function.name, value.compile_id);
    set_place(finding, value.function);
    finding.what =
        fmt::format("the compilation of {} ({}:{}) has begun and not ended", value.function.name,
                    base_name(value.function.file), value.function.line);
    finding.why = some ? "the other ranks finished it: these hang in the compiler, died, or their "
                         "log was cut"
                       : "the log ends while it runs";
    finding.advice =
        "look at the end of the rank's own output; py-spy dump --pid shows where a "
        "living process stands";
    report.findings.push_back(std::move(finding));
  }
}

// Text logs and backward graphs do not say.
Cell count_cell(std::int64_t count) {
  return count > 0 ? Cell(count) : Cell("-");
}

void add_table(const CompileJob& job, Section& section, double& total) {
  Table table{"Compilations, longest first",
              {"function", "graph", "rank", "nodes", "guards", "seconds", "dynamo", "aot autograd",
               "inductor", "code generation", "triton"},
              {}};
  std::vector<Ranked<Compilation>> sorted;
  for (const auto& ranked : job.prefer_structured(&CompileFacts::compilations)) {
    if (ranked.value->seconds > 0) sorted.push_back(ranked);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.value->seconds > b.value->seconds;
  });
  constexpr std::size_t kMaxRows = 200;
  for (const auto& [rank, value] : sorted) {
    total += value->seconds;
    if (table.rows.size() >= kMaxRows) continue;
    std::vector<Cell> row = {value->function.name + (value->is_backward ? " (backward)" : ""),
                             value->compile_id,
                             rank < 0 ? std::string("-") : std::to_string(rank),
                             count_cell(value->graph_nodes),
                             count_cell(value->guards),
                             value->seconds};
    for (std::size_t i = 6; i < table.columns.size(); ++i) {
      const auto found = value->phases.find(table.columns[i]);
      row.push_back(found == value->phases.end() ? Cell("-") : Cell(found->second));
    }
    table.rows.push_back(std::move(row));
  }
  if (!table.rows.empty()) section.tables.push_back(std::move(table));
}

}  // namespace

void conclude_times(const CompileJob& job, Report& report) {
  if (job.ranks.size() > 1) find_stragglers(job, report);
  find_outliers(job, report);
  find_unfinished(job, report);
  Section section;
  section.title = "Compile time";
  double total = 0;
  add_table(job, section, total);
  if (section.tables.empty()) return;
  add_time_chart(job, section);
  report.statistics.push_back({"compile_seconds", total});
  report.sections.push_back(std::move(section));
}

}  // namespace monograph::diagnose
