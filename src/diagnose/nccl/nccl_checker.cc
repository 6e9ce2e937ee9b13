#include "diagnose/nccl/nccl_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "diagnose/hang/progress.h"

namespace monograph::diagnose {

NcclChecker::NcclChecker(const NcclLog& log, std::vector<Finding>& findings)
    : log_(log), findings_(findings) {
  for (const auto& [id, process] : log_.processes) ++num_gpus_[id.host];
  for (const auto& [id, communicator] : log_.communicators) {
    if (communicator.num_nodes > 1) is_multi_host_ = true;
  }
  if (num_gpus_.size() > 1) is_multi_host_ = true;
}

Finding& NcclChecker::add(std::string_view code, Severity severity, std::string what,
                          std::string why, std::string advice) {
  Finding finding;
  finding.code = code;
  finding.severity = severity;
  finding.what = std::move(what);
  finding.why = std::move(why);
  finding.advice = std::move(advice);
  finding.weight =
      100 - static_cast<double>(findings_.size());  // the checks run in order of gravity
  findings_.push_back(std::move(finding));
  return findings_.back();
}

std::vector<int> NcclChecker::ranks_of(const Members& members) const {
  std::vector<int> ranks;
  for (const NcclProcessId* id : members) {
    int rank = log_.processes.at(*id).rank;
    if (rank >= 0) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string NcclChecker::who(const Members& members) const {
  std::set<std::string> hosts;
  for (const NcclProcessId* id : members) hosts.insert(id->host);
  std::string where = hosts.size() <= 3
                          ? fmt::format("{}", fmt::join(hosts, ", "))
                          : fmt::format("{} hosts, {} the first", hosts.size(), *hosts.begin());
  std::vector<int> ranks = ranks_of(members);
  if (ranks.empty()) return (hosts.size() == 1 ? "host " : "hosts ") + where;
  return fmt::format("rank{} {} ({})", ranks.size() == 1 ? "" : "s", rank_list(ranks), where);
}

std::vector<std::string> NcclChecker::sides(const Groups& groups) const {
  std::vector<std::string> lines;
  for (const auto& [value, members] : groups)
    lines.push_back(fmt::format("{}: {}", value, who(members)));
  return lines;
}

const std::pair<const std::string, NcclChecker::Members>& NcclChecker::smallest(
    const Groups& groups) {
  return *std::min_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
}

std::string NcclChecker::largest_name(const Groups& groups) {
  // The last of equal ones: smallest() gives the first.
  return std::max_element(
             groups.rbegin(), groups.rend(),
             [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); })
      ->first;
}

}  // namespace monograph::diagnose
