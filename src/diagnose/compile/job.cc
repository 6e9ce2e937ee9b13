#include "diagnose/compile/job.h"

#include <fmt/format.h>

#include <map>

#include "diagnose/compile/rank_comparison.h"
#include "diagnose/source.h"

namespace monograph::diagnose {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

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

template <typename T>
void collect_ranks(const CompileJob& job, std::vector<T> CompileFacts::*member,
                   std::set<int>& ranks) {
  for (const Ranked<T>& record : job.all(member)) {
    if (record.rank >= 0) ranks.insert(record.rank);
  }
}

}  // namespace

std::vector<CompileJob> gather_jobs(const FactsList& facts) {
  std::vector<CompileJob> jobs;
  std::map<std::string, std::size_t> index;
  for (const CompileFacts* log : facts_of<CompileFacts>(facts)) {
    const std::string folder = folder_of(log->path);
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
  return jobs;
}

void conclude_health(const CompileJob& job, Report& report) {
  std::int64_t torn = 0, records = 0;
  Finding finding;
  for (const CompileFacts* log : job.logs) {
    records += log->num_records;
    torn += log->num_torn;
    if (log->num_torn > 0) {
      finding.evidence.push_back(fmt::format("{}: {} of {} records", log->path, log->num_torn,
                                             log->num_records + log->num_torn));
    }
  }
  report.statistics.push_back({"compiler_records", records});
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

std::vector<int> known_ranks(const std::set<int>& ranks) {
  std::vector<int> known(ranks.begin(), ranks.end());
  if (!known.empty() && known.front() < 0) known.erase(known.begin());
  return known;
}

void conclude_compile(const FactsList& facts, Report& report) {
  for (const CompileJob& job : gather_jobs(facts)) {
    conclude_failures(job, report);
    conclude_ranks(job, report);
    conclude_recompiles(job, report);
    conclude_breaks(job, report);
    conclude_times(job, report);
    conclude_cache(job, report);
    conclude_fusion(job, report);
    conclude_health(job, report);
  }
}

}  // namespace monograph::diagnose
