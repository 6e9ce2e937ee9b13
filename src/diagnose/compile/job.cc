#include "diagnose/compile/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnose/compile/rank_comparison.h"
#include "diagnose/source.h"
#include "diagnose/text_log.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

// Names win where contents put several files on one rank but names do not: logs of one rank that
// were copied to stand for others, or of processes that each thought to be rank 0.
void settle_ranks(CompileJob& job) {
  std::map<int, std::vector<std::size_t>> by_rank;
  for (std::size_t i = 0; i < job.logs.size(); ++i) {
    if (job.log_ranks[i] >= 0 && job.logs[i]->is_structured) by_rank[job.log_ranks[i]].push_back(i);
  }
  for (const auto& [rank, logs] : by_rank) {
    std::set<int> names;
    for (const std::size_t i : logs) names.insert(rank_of_name(job.logs[i]->path));
    if (logs.size() < 2 || names.size() != logs.size() || names.contains(-1)) continue;
    for (const std::size_t i : logs) job.log_ranks[i] = rank_of_name(job.logs[i]->path);
  }
}

bool are_disjoint(const std::set<int>& a, const std::set<int>& b) {
  return std::none_of(a.begin(), a.end(), [&](int rank) { return b.contains(rank); });
}

// "/logs/node0/trace" and "/logs/node1/trace": folders of two hosts differ in one part.
bool differ_in_one_part(std::string_view a, std::string_view b) {
  const auto begin = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto end = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  const auto has_slash = [](const auto& from, const auto& to) {
    return from < to && std::find(from, to, '/') != to;
  };
  return !has_slash(begin.first, end.first.base()) && !has_slash(begin.second, end.second.base());
}

// Such folders with ranks that complete one another hold one job: a folder a host.
void join_hosts(std::vector<CompileJob>& jobs) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (std::size_t j = i + 1; j < jobs.size();) {
      CompileJob &a = jobs[i], &b = jobs[j];
      const bool host = differ_in_one_part(a.folder, b.folder) && !a.ranks.empty() &&
                        !b.ranks.empty() && are_disjoint(a.ranks, b.ranks) &&
                        a.logs.front()->is_structured == b.logs.front()->is_structured;
      if (!host) {
        ++j;
        continue;
      }
      a.logs.insert(a.logs.end(), b.logs.begin(), b.logs.end());
      a.log_ranks.insert(a.log_ranks.end(), b.log_ranks.begin(), b.log_ranks.end());
      a.ranks.insert(b.ranks.begin(), b.ranks.end());
      jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

template <typename T>
void collect_ranks(const CompileJob& job, std::vector<T> CompileFacts::*member,
                   std::set<int>& ranks) {
  for (const Ranked<T>& record : job.all(member)) {
    if (record.rank >= 0) ranks.insert(record.rank);
  }
}

// Text logs of some artifacts hold no graphs: that ranks differ then cannot be seen.
void note_missing_graphs(const CompileJob& job, Report& report) {
  const bool has_graphs = std::any_of(
      job.logs.begin(), job.logs.end(),
      [](const CompileFacts* log) { return !log->graphs.empty() || log->num_graphs_left_out > 0; });
  if (job.ranks.size() < 2 || has_graphs) return;
  Finding finding;
  finding.code = "graphs_not_logged";
  finding.severity = Severity::kNote;
  finding.what = "whether the ranks compiled the same graphs cannot be said: the logs hold none";
  finding.advice =
      "set TORCH_TRACE=folder in the next run, or add aot_graphs to TORCH_LOGS; both print each "
      "rank's graphs, which are then compared";
  report.findings.push_back(std::move(finding));
}

}  // namespace

std::vector<CompileJob> gather_jobs(const FactsList& facts) {
  std::vector<CompileJob> jobs;
  std::map<std::string, std::size_t> index;
  for (const CompileFacts* log : facts_of<CompileFacts>(facts)) {
    const std::string folder = job_folder(log->path);
    const auto [found, is_new] = index.try_emplace(folder, jobs.size());
    if (is_new) jobs.push_back({folder, {}, {}, {}});
    jobs[found->second].logs.push_back(log);
    jobs[found->second].log_ranks.push_back(log->rank);
  }
  for (CompileJob& job : jobs) {
    settle_ranks(job);
    for (const int rank : job.log_ranks) {
      if (rank >= 0) job.ranks.insert(rank);
    }
    collect_ranks(job, &CompileFacts::breaks, job.ranks);
    collect_ranks(job, &CompileFacts::recompiles, job.ranks);
    collect_ranks(job, &CompileFacts::compilations, job.ranks);
    collect_ranks(job, &CompileFacts::graphs, job.ranks);
  }
  // A rank whose log says nothing of the compiler is a rank all the same.
  for (const TextFacts* log : facts_of<TextFacts>(facts)) {
    const auto found = index.find(job_folder(log->path));
    if (log->rank >= 0 && found != index.end()) jobs[found->second].ranks.insert(log->rank);
  }
  join_hosts(jobs);
  return jobs;
}

void conclude_health(const CompileJob& job, Report& report) {
  std::int64_t torn = 0, records = 0, left_out = 0;
  Finding finding;
  for (const CompileFacts* log : job.logs) {
    records += log->num_records;
    torn += log->num_torn;
    left_out += log->num_graphs_left_out;
    if (log->num_torn > 0) {
      finding.evidence.push_back(fmt::format("{}: {} of {} records", log->path, log->num_torn,
                                             log->num_records + log->num_torn));
    }
  }
  report.statistics.push_back({"compiler_records", records});
  if (records > 0) note_missing_graphs(job, report);
  if (left_out > 0) {
    Finding part;
    part.code = "graphs_left_out";
    part.severity = Severity::kNote;
    part.count = left_out;
    part.what = "graphs beyond the first 64 MiB of a log were not compared between ranks";
    report.findings.push_back(std::move(part));
  }
  if (torn == 0) return;
  finding.code = "torn_records";
  finding.severity = Severity::kNote;
  finding.count = torn;
  finding.what = "records of the compiler log were torn or invalid and left out";
  finding.why = "the writer was killed, two processes wrote to one file, or the file was edited";
  finding.advice = "nothing, if few; else give each process a log of its own (TORCH_TRACE=folder)";
  report.findings.push_back(std::move(finding));
}

std::string frame_label(const std::string& function, const std::string& compile_id) {
  if (compile_id.empty()) return function;
  return function.empty() ? fmt::format("[{}]", compile_id)
                          : fmt::format("{} [{}]", function, compile_id);
}

std::string function_label(const CompiledFunction& function) {
  std::string place = fmt::format("{}:{}", base_name(function.file), function.line);
  if (function.caller.line > 0) {
    place +=
        fmt::format(", called at {}:{}", base_name(function.caller.file), function.caller.line);
  }
  return fmt::format("{} ({})", function.name, place);
}

void set_place(Finding& finding, const CompiledFunction& function) {
  const bool wrapper = function.caller.line > 0;
  finding.where.line = wrapper ? function.caller.line : function.line;
  finding.where.file = finding.where.line == 0 ? ""
                       : wrapper               ? function.caller.file
                                               : function.file;
}

std::vector<int> known_ranks(const std::set<int>& ranks) {
  std::vector<int> known(ranks.begin(), ranks.end());
  if (!known.empty() && known.front() < 0) known.erase(known.begin());
  return known;
}

void conclude_compile(const FactsList& facts, Report& report) {
  const std::vector<CompileJob> jobs = gather_jobs(facts);
  for (const CompileJob& job : jobs) {
    const std::size_t known = report.sections.size();
    conclude_failures(job, report);
    conclude_ranks(job, report);
    conclude_recompiles(job, report);
    conclude_breaks(job, report);
    conclude_times(job, report);
    conclude_cache(job, report);
    conclude_fusion(job, report);
    conclude_health(job, report);
    if (jobs.size() < 2) continue;
    for (std::size_t i = known; i < report.sections.size(); ++i) {
      report.sections[i].title += fmt::format(" ({})", job.folder);
    }
  }
}

}  // namespace monograph::diagnose
