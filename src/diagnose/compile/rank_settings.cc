#include "diagnose/compile/rank_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace monograph::diagnose {
namespace {

using Json = nlohmann::json;

bool may_differ(std::string_view name) {
  for (const std::string_view part :
       {"dir", "path", "file", "trace", "log", "debug", "rank", "job_id", "dump"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

// A list in sorted order: most are sets that Python wrote in the order of their hashes.
std::string plain(const Json& value) {
  if (!value.is_array()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<std::string> parts;
  for (const Json& one : value) {
    parts.push_back(one.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  std::sort(parts.begin(), parts.end());
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

// Ranks by value, the largest group first.
std::vector<std::pair<std::set<int>, std::string>> group(
    const std::map<int, std::string>& by_rank) {
  std::map<std::string, std::set<int>> groups;
  for (const auto& [rank, value] : by_rank) groups[value].insert(rank);
  std::vector<std::pair<std::set<int>, std::string>> sorted;
  for (auto& [value, ranks] : groups) sorted.emplace_back(std::move(ranks), value);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  return sorted;
}

void compare_versions(const std::string& name, const std::map<int, std::string>& by_rank,
                      Report& report) {
  const auto groups = group(by_rank);
  if (groups.size() < 2) return;
  Finding finding;
  finding.code = "version_mismatch";
  finding.severity = Severity::kError;
  finding.weight = 300;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    finding.where.ranks.insert(finding.where.ranks.end(), groups[i].first.begin(),
                               groups[i].first.end());
  }
  std::sort(finding.where.ranks.begin(), finding.where.ranks.end());
  finding.what = fmt::format("ranks run different versions of {}", name);
  finding.why =
      fmt::format("{}: {}; {}: {}", describe_ranks(known_ranks(groups[1].first)), groups[1].second,
                  describe_ranks(known_ranks(groups[0].first)), groups[0].second);
  finding.advice =
      "install one version on all hosts: compiled graphs, cache keys and collectives "
      "may differ";
  for (const auto& [ranks, version] : groups) {
    finding.evidence.push_back(fmt::format("{}: {}", describe_ranks(known_ranks(ranks)), version));
  }
  report.findings.push_back(std::move(finding));
}

void compare_options(const std::string& name, const std::map<int, std::string>& by_rank,
                     Report& report) {
  const auto groups = group(by_rank);
  // Dumps that differ in nothing of weight belong together.
  std::map<std::string, std::pair<std::set<int>, std::vector<SettingChange>>> differing;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    std::vector<SettingChange> changes = setting_changes(groups[0].second, groups[i].second);
    if (changes.empty()) continue;
    std::string key;
    for (const SettingChange& change : changes) key += change.name + "=" + change.after + "\n";
    auto& [ranks, known] = differing[key];
    ranks.insert(groups[i].first.begin(), groups[i].first.end());
    known = std::move(changes);
  }
  for (const auto& [key, entry] : differing) {
    const auto& [ranks, changes] = entry;
    Finding finding;
    finding.code = "settings_mismatch";
    finding.weight = 100;
    finding.where.ranks = known_ranks(ranks);
    std::string names;
    for (std::size_t i = 0; i < changes.size() && i < 4; ++i) {
      names += (i > 0 ? ", " : "") + changes[i].name;
    }
    if (changes.size() > 4) names += fmt::format(" and {} more", changes.size() - 4);
    finding.what = fmt::format("{} compiled with other options than the other ranks: {}",
                               describe_ranks(finding.where.ranks), names);
    finding.why = fmt::format(
        "{} differs; ranks may compile other kernels, launch collectives in "
        "another order and miss each other's caches",
        name);
    finding.advice =
        "set these options the same on all ranks: compare the environment "
        "(TORCHINDUCTOR_..., TORCHDYNAMO_...) and the code that sets torch._inductor."
        "config or torch._dynamo.config";
    for (const SettingChange& change : changes) {
      if (finding.evidence.size() >= 12) break;
      finding.evidence.push_back(fmt::format("{}: {} elsewhere, {} here", change.name,
                                             change.before.substr(0, 120),
                                             change.after.substr(0, 120)));
    }
    report.findings.push_back(std::move(finding));
  }
}

}  // namespace

std::vector<SettingChange> setting_changes(std::string_view before, std::string_view after) {
  const Json a = Json::parse(before, nullptr, false), b = Json::parse(after, nullptr, false);
  std::vector<SettingChange> changes;
  if (!a.is_object() || !b.is_object()) return changes;
  for (const auto& [name, value] : a.items()) {
    if (may_differ(name) || !b.contains(name)) continue;
    const std::string here = plain(value), there = plain(b[name]);
    if (here != there) changes.push_back({name, here, there});
  }
  return changes;
}

void compare_settings(const CompileJob& job, Report& report) {
  std::map<std::string, std::map<int, std::string>> versions, settings;
  for (std::size_t i = 0; i < job.logs.size(); ++i) {
    if (job.log_ranks[i] < 0) continue;
    for (const auto& [name, version] : job.logs[i]->versions) {
      versions[name].try_emplace(job.log_ranks[i], version);
    }
    for (const auto& [name, json] : job.logs[i]->settings) {
      settings[name].try_emplace(job.log_ranks[i], json);
    }
  }
  for (const auto& [name, by_rank] : versions) compare_versions(name, by_rank, report);
  for (const auto& [name, by_rank] : settings) compare_options(name, by_rank, report);
}

}  // namespace monograph::diagnose
