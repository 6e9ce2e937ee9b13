#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "diagnose/events/event_log.h"
#include "diagnose/source.h"

namespace monograph::diagnose {
namespace {

using Logs = std::vector<const EventFacts*>;

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// Without the first steps, which compile and fill caches.
std::vector<double> warm_seconds(const EventFacts& log) {
  std::vector<double> seconds;
  const std::size_t skip = std::min<std::size_t>(log.steps.size() / 10, 10);
  for (std::size_t i = skip; i < log.steps.size(); ++i) seconds.push_back(log.steps[i].seconds);
  return seconds;
}

std::vector<int> ranks_of(const std::set<int>& ranks) {
  std::vector<int> list(ranks.begin(), ranks.end());
  if (!list.empty() && list.front() < 0) list.erase(list.begin());
  return list;
}

using HashGroups = std::vector<std::pair<std::set<int>, std::string>>;

std::vector<const NodeEvent*> nodes_of(const Logs& logs, int rank, const std::string& frame) {
  std::vector<const NodeEvent*> nodes;
  for (const EventFacts* log : logs) {
    if (log->rank != rank) continue;
    for (const NodeEvent& node : log->nodes) {
      if (node.frame != frame) continue;
      if (!nodes.empty() && node.id <= nodes.back()->id) return nodes;  // traced again
      nodes.push_back(&node);
    }
  }
  return nodes;
}

// "the graphs first differ at node 12: ranks 2 has ..., ranks 0, 1, 3 ..."; "" if no nodes were
// logged.
std::string first_difference(const Logs& logs, const std::string& frame, const HashGroups& groups) {
  const std::vector<int> some = ranks_of(groups.back().first);
  const std::vector<int> most = ranks_of(groups.front().first);
  if (some.empty() || most.empty()) return "";
  const auto mine = nodes_of(logs, some.front(), frame);
  const auto theirs = nodes_of(logs, most.front(), frame);
  if (mine.empty() || theirs.empty()) return "";
  std::size_t at = 0;
  while (at < mine.size() && at < theirs.size() && mine[at]->text == theirs[at]->text) ++at;
  if (at == mine.size() && at == theirs.size()) return "";
  const auto describe = [at](const std::vector<const NodeEvent*>& nodes) -> std::string {
    if (at >= nodes.size()) return "nothing more";
    const NodeEvent& node = *nodes[at];
    return node.place.empty() ? node.text : fmt::format("{} ({})", node.text, node.place);
  };
  return fmt::format("the graphs first differ at node {}: {} has {}, {} {}", at,
                     describe_ranks(some), describe(mine), describe_ranks(most), describe(theirs));
}

// Equal programs have equal hashes on all ranks of a stage.
void compare_hashes(const Logs& logs, Report& report) {
  std::map<std::string, std::map<std::string, std::set<int>>> by_frame;  // frame -> hashes -> ranks
  for (const EventFacts* log : logs) {
    // A run that was started again compiles the same once more.
    std::map<std::string, std::string> hashes;
    for (const CompileEvent& one : log->compilations) {
      std::string& list = hashes[one.frame];
      if (list.find(one.graph_hash) == std::string::npos) list += one.graph_hash + " ";
    }
    for (const auto& [frame, list] : hashes) by_frame[frame][list].insert(log->rank);
  }
  for (const auto& [frame, groups] : by_frame) {
    if (groups.size() < 2) continue;
    HashGroups sorted;
    for (const auto& [hashes, ranks] : groups) sorted.emplace_back(ranks, hashes);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    Finding finding;
    finding.code = "hash_mismatch";
    finding.severity = Severity::kError;
    finding.weight = 500;
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      for (const int rank : ranks_of(sorted[i].first)) finding.where.ranks.push_back(rank);
    }
    std::sort(finding.where.ranks.begin(), finding.where.ranks.end());
    finding.where.frame = frame;
    finding.what =
        fmt::format("{} compiled another graph than {}", describe_ranks(finding.where.ranks),
                    describe_ranks(ranks_of(sorted.front().first)));
    finding.why = "their graph hashes differ; equal programs have equal hashes on every rank";
    if (const std::string first = first_difference(logs, frame, sorted); !first.empty()) {
      finding.why += "; " + first;
    }
    finding.advice =
        "make the code take the same path on every rank; MONOGRAPH_LOGS=graph=trace logs the "
        "nodes, "
        "and the first that differs is named here; stages of a pipeline differ on purpose";
    for (const auto& [ranks, hashes] : sorted) {
      finding.evidence.push_back(fmt::format("{}: {}", describe_ranks(ranks_of(ranks)), hashes));
    }
    report.findings.push_back(std::move(finding));
  }
}

std::string incident_advice(const Incident& incident) {
  if (!incident.advice.empty()) return incident.advice;
  if (incident.event == "recompile")
    return "declare the dimension dynamic, or keep the input fixed";
  if (incident.event == "compile_timeout") {
    return "raise compile_timeout, warm the cache before the run, or leave the fallback";
  }
  if (incident.event == "graph_break") return "move the host access out of the traced function";
  return "see the event";
}

void add_incidents(const Logs& logs, Report& report) {
  std::map<std::string, std::pair<const Incident*, std::set<int>>> all;
  std::map<std::string, std::int64_t> counts;
  for (const EventFacts* log : logs) {
    for (const auto& [key, incident] : log->incidents) {
      auto& [first, ranks] = all[key];
      if (first == nullptr) first = &incident;
      ranks.insert(log->rank);
      counts[key] += incident.count;
    }
  }
  for (const auto& [key, entry] : all) {
    const Incident& incident = *entry.first;
    Finding finding;
    finding.code = incident.event;
    finding.count = counts[key];
    finding.weight = static_cast<double>(finding.count);
    finding.where.ranks = ranks_of(entry.second);
    finding.where.frame = incident.frame;
    std::string name = incident.event;
    std::replace(name.begin(), name.end(), '_', ' ');
    finding.what = incident.reason.empty() ? name : fmt::format("{}: {}", name, incident.reason);
    finding.advice = incident_advice(incident);
    finding.evidence.push_back(incident.evidence);
    report.findings.push_back(std::move(finding));
  }
}

void check_losses(const Logs& logs, Report& report) {
  for (const EventFacts* log : logs) {
    if (log->bad_loss_step < 0) continue;
    Finding finding;
    finding.code = "loss_not_finite";
    finding.severity = Severity::kError;
    finding.weight = 900;
    if (log->rank >= 0) finding.where.ranks = {log->rank};
    finding.what = fmt::format("the loss is {} at step {}", log->bad_loss, log->bad_loss_step);
    finding.why = log->last_loss
                      ? fmt::format("the last loss that is a number was {:.4g}", *log->last_loss)
                      : "it never was a number";
    finding.advice =
        "lower the learning rate, lengthen the warm-up, clip gradients, or look at the "
        "batch of that step";
    report.findings.push_back(std::move(finding));
  }
}

double median_speed(const EventFacts& log) {
  std::vector<double> speeds;
  for (const StepEvent& step : log.steps) speeds.push_back(step.tokens_per_s);
  return quantile(speeds, 0.5);
}

Cell cell_of(const std::optional<double>& value) {
  return value ? Cell(*value) : Cell(std::string("-"));
}

void add_compilations(const Logs& logs, Section& section, Report& report) {
  struct Row {
    std::set<int> ranks;
    std::int64_t times = 0;
    double slowest = 0;
    const CompileEvent* event = nullptr;
  };
  std::map<std::pair<std::string, std::string>, Row> rows;
  double total = 0;
  for (const EventFacts* log : logs) {
    for (const CompileEvent& one : log->compilations) {
      Row& row = rows[{one.frame, one.graph_hash}];
      row.ranks.insert(log->rank);
      ++row.times;
      row.slowest = std::max(row.slowest, one.seconds);
      row.event = &one;
      total += one.seconds;
    }
  }
  if (rows.empty()) return;
  report.statistics.push_back({"compile_seconds", total});
  Table table{"Compilations",
              {"frame", "graph hash", "ranks", "times", "slowest s", "kernels", "from cache"},
              {}};
  for (const auto& [key, row] : rows) {
    if (table.rows.size() >= 200) break;
    table.rows.push_back({key.first, key.second.substr(0, 16), describe_ranks(ranks_of(row.ranks)),
                          row.times, row.slowest, row.event->kernels,
                          row.event->kernels_from_cache});
  }
  section.tables.push_back(std::move(table));
}

void check_speed(const Logs& logs, Section& section, Report& report) {
  Table table{"Steps",
              {"rank", "steps", "p50 ms", "p99 ms", "slowest ms", "at step", "tokens/s",
               "first loss", "last loss", "validation loss"},
              {}};
  std::vector<double> medians;
  for (const EventFacts* log : logs) {
    if (log->steps.empty()) continue;
    const std::vector<double> seconds = warm_seconds(*log);
    const auto slowest =
        std::max_element(log->steps.begin(), log->steps.end(),
                         [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    medians.push_back(quantile(seconds, 0.5));
    table.rows.push_back({log->rank < 0 ? std::string("-") : std::to_string(log->rank),
                          static_cast<std::int64_t>(log->steps.size()), medians.back() * 1e3,
                          quantile(seconds, 0.99) * 1e3, slowest->seconds * 1e3, slowest->step,
                          median_speed(*log), cell_of(log->first_loss), cell_of(log->last_loss),
                          cell_of(log->validation_loss)});
  }
  if (table.rows.empty()) return;
  const double typical = quantile(medians, 0.5);
  report.statistics.push_back({"step_seconds_p50", typical});
  section.tables.push_back(std::move(table));
  if (medians.size() < 3) return;
  for (const EventFacts* log : logs) {
    const double own = quantile(warm_seconds(*log), 0.5);
    if (log->rank < 0 || own <= 1.25 * typical) continue;
    Finding finding;
    finding.code = "slow_rank";
    finding.weight = own / typical;
    finding.where.ranks = {log->rank};
    finding.what = fmt::format("rank {} takes {:.1f} ms a step, the others {:.1f} ms", log->rank,
                               own * 1e3, typical * 1e3);
    finding.why = "its median step is more than a quarter above that of all ranks";
    finding.advice =
        "compare its host: clock and power limits, other load, CPU binding, data loading";
    report.findings.push_back(std::move(finding));
  }
}

}  // namespace

void conclude_events(const FactsList& facts, Report& report) {
  std::map<std::string, Logs> jobs;
  for (const EventFacts* log : facts_of<EventFacts>(facts)) {
    jobs[job_folder(log->path)].push_back(log);
  }
  for (const auto& [folder, logs] : jobs) {
    compare_hashes(logs, report);
    add_incidents(logs, report);
    check_losses(logs, report);
    Section section;
    section.title = "Monograph's events";
    add_compilations(logs, section, report);
    check_speed(logs, section, report);
    std::map<std::string, std::int64_t> counts;
    std::int64_t torn = 0;
    for (const EventFacts* log : logs) {
      for (const auto& [event, count] : log->counts) counts[event] += count;
      torn += log->num_torn;
    }
    Table table{"Events", {"event", "times"}, {}};
    for (const auto& [event, count] : counts) table.rows.push_back({event, count});
    section.tables.push_back(std::move(table));
    if (torn > 0) section.lines.push_back(fmt::format("{} torn lines were left out", torn));
    report.sections.push_back(std::move(section));
  }
}

}  // namespace monograph::diagnose
