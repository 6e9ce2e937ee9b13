#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "diagnose/compile/cache_misses.h"
#include "diagnose/compile/job.h"
#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

std::string bypass_advice(std::string_view reason) {
  if (has(reason, "call_function target") || has(reason, "Unsupported")) {
    return "the graph holds an operator that the cache cannot describe: it compiles anew in each "
           "process; newer versions know more operators";
  }
  if (has(reason, "custom pass") || has(reason, "uuid")) {
    return "give the custom pass a uuid() so that the cache can name it";
  }
  return "this graph compiles anew in each process; see the reason";
}

void add_bypasses(const CompileJob& job, Report& report) {
  std::map<std::string, Finding> findings;
  std::map<std::string, std::set<int>> ranks;
  for (const auto& [rank, event] : job.prefer_structured(&CompileFacts::cache_events)) {
    if (event->state != CacheState::kBypass) continue;
    const std::string reason = event->reason.empty() ? "no reason logged" : event->reason;
    Finding& finding = findings[event->cache + reason];
    ranks[event->cache + reason].insert(rank);
    finding.count = finding.code.empty() ? event->count : finding.count + event->count;
    if (!finding.code.empty()) continue;
    finding.code = "cache_bypass";
    finding.severity = Severity::kNote;
    finding.where.frame = frame_label("", event->compile_id);
    finding.what = fmt::format("the {} cache was bypassed", event->cache);
    finding.why = reason;
    finding.advice = bypass_advice(reason);
  }
  for (auto& [key, finding] : findings) {
    finding.where.ranks = known_ranks(ranks[key]);
    report.findings.push_back(std::move(finding));
  }
}

// Misses that a setting or a version caused, not the model: those can be cured.
void add_avoidable(const std::vector<ExplainedMiss>& misses, Report& report) {
  std::map<std::string, Finding> findings;
  std::map<std::string, std::set<int>> ranks;
  for (const ExplainedMiss& miss : misses) {
    const bool again = miss.cause == MissCause::kSameKey;
    if (!again && miss.cause != MissCause::kSettings) continue;
    const std::string key =
        miss.event->cache + (again ? "again" : list_components(miss.changes, 20));
    Finding& finding = findings[key];
    ranks[key].insert(miss.rank);
    if (!finding.code.empty()) {
      ++finding.count;
      continue;
    }
    finding.code = "cache_miss";
    finding.severity = Severity::kWarning;
    finding.weight = 5;
    finding.where.frame = frame_label(miss.function, miss.event->compile_id);
    if (again) {
      finding.what =
          fmt::format("the {} cache missed a key that was compiled before", miss.event->cache);
      finding.why =
          "the entry was not kept: another cache folder, a folder emptied between runs, "
          "or a full disk";
      finding.advice =
          "point TORCHINDUCTOR_CACHE_DIR at one folder that lives between runs and is "
          "writable";
      finding.evidence.push_back(miss.event->key);
    } else {
      finding.what = fmt::format("the {} cache missed although the graph was compiled before",
                                 miss.event->cache);
      finding.why = "these parts of the key differ: " + list_components(miss.changes, 6);
      finding.advice =
          "make these settings the same in all runs and ranks, or accept one more "
          "compilation for each combination";
      for (const ComponentChange& change : miss.changes) {
        if (finding.evidence.size() >= 12) break;
        finding.evidence.push_back(
            fmt::format("{}: {} -> {}", change.name, change.before, change.after));
      }
    }
  }
  for (auto& [key, finding] : findings) {
    finding.where.ranks = known_ranks(ranks[key]);
    report.findings.push_back(std::move(finding));
  }
}

// Other graphs have other keys, and a straggler's finding tells of its cold cache.
bool follows_from_finding(const CacheSplit& split, const Report& report) {
  return std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& finding) {
    return (finding.code == "compile_straggler" || finding.code == "graph_mismatch") &&
           finding.where.frame == frame_label(split.function, split.compile_id);
  });
}

// One rank compiles what the others find in the cache.
void add_splits(const CompileJob& job, Report& report) {
  std::set<std::pair<std::set<int>, std::string>> told;  // one finding for both caches
  for (const CacheSplit& split : find_splits(job)) {
    if (follows_from_finding(split, report)) continue;
    if (!told.insert({split.missed, split.compile_id}).second) continue;
    Finding finding;
    finding.code = "cache_split";
    finding.severity = split.filled ? Severity::kNote : Severity::kWarning;
    finding.weight = 20;
    finding.where.ranks = known_ranks(split.missed);
    finding.where.frame = frame_label(split.function, split.compile_id);
    finding.what =
        fmt::format("{} missed the {} cache where {} hit it", describe_ranks(finding.where.ranks),
                    split.cache, describe_ranks(known_ranks(split.hit)));
    finding.why = explain_split(split);
    finding.advice = split_advice(split);
    for (const ComponentChange& change : split.changes) {
      if (finding.evidence.size() >= 12) break;
      finding.evidence.push_back(
          fmt::format("{}: {} -> {}", change.name, change.before, change.after));
    }
    report.findings.push_back(std::move(finding));
  }
}

}  // namespace

void conclude_cache(const CompileJob& job, Report& report) {
  const std::vector<ExplainedMiss> misses = explain_misses(job);
  add_bypasses(job, report);
  add_avoidable(misses, report);
  if (job.ranks.size() > 1) add_splits(job, report);
  std::map<std::string, std::array<std::int64_t, 3>> counts;
  for (const auto& [rank, event] : job.prefer_structured(&CompileFacts::cache_events)) {
    counts[event->cache][static_cast<std::size_t>(event->state)] += event->count;
  }
  if (counts.empty()) return;
  Section section;
  section.title = "Compiler caches";
  Table totals{"", {"cache", "hits", "misses", "bypassed"}, {}};
  for (const auto& [cache, n] : counts) {
    totals.rows.push_back({cache, n[0], n[1], n[2]});
    report.statistics.push_back({cache + "_cache_hits", n[0]});
    report.statistics.push_back({cache + "_cache_misses", n[1]});
  }
  section.tables.push_back(std::move(totals));
  Table table{"Why the caches missed",
              {"cache", "graph", "rank", "cause", "parts of the key that differ", "first of them"},
              {}};
  for (const ExplainedMiss& miss : misses) {
    if (table.rows.size() >= 500) break;
    std::string first;
    Cell num_changes = "-";  // the log may not hold the parts
    if (!miss.changes.empty()) {
      num_changes = static_cast<std::int64_t>(miss.changes.size());
      const ComponentChange& change = miss.changes.front();
      first = fmt::format("{}: {} -> {}", change.name, change.before, change.after);
    }
    table.rows.push_back({miss.event->cache, frame_label(miss.function, miss.event->compile_id),
                          miss.rank < 0 ? std::string("-") : std::to_string(miss.rank),
                          std::string(describe(miss.cause)), num_changes, first});
  }
  if (!table.rows.empty()) section.tables.push_back(std::move(table));
  report.sections.push_back(std::move(section));
}

}  // namespace monograph::diagnose
