#include "diagnose/hang/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <utility>

#include "base/hash.h"

namespace monograph::diagnose {

std::string group_key(std::string_view name, const std::vector<int>& ranks) {
  if (ranks.empty()) return std::string(name);
  Hasher hasher;
  for (int rank : ranks) hasher.add(int64_t{rank});
  return fmt::format("{}:{}", name, hasher.finish().hex().substr(0, 10));
}

std::string group_title(const Progress& progress, const std::string& key) {
  auto found = progress.groups.find(key);
  if (found == progress.groups.end()) return key;
  const Group& group = found->second;
  if (group.description == "default_pg") return "the default group";
  bool described = !group.description.empty() && group.description != "undefined";
  if (described && group.description != group.name) {
    return group.name.empty() ? group.description
                              : fmt::format("{} ({})", group.description, group.name);
  }
  bool is_number =
      !group.name.empty() && group.name.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "group " + group.name : group.name;
}

std::string plain_op(std::string_view name) {
  if (size_t colon = name.rfind(':'); colon != std::string_view::npos)
    name.remove_prefix(colon + 1);
  name = name.substr(0, name.find(' '));
  std::string key;  // letters only, so that every spelling meets
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kNames{{
      {"allreduce", "all_reduce"},
      {"allreducecoalesced", "all_reduce_coalesced"},
      {"allreducebarrier", "barrier"},
      {"allreducesparse", "all_reduce_sparse"},
      {"allgather", "all_gather"},
      {"allgatherbase", "all_gather_base"},
      {"allgathersingle", "all_gather_base"},
      {"allgathercoalesced", "all_gather_coalesced"},
      {"allgatherintotensorcoalesced", "all_gather_into_tensor_coalesced"},
      {"reducescatter", "reduce_scatter"},
      {"reducescatterbase", "reduce_scatter_base"},
      {"reducescattersingle", "reduce_scatter_base"},
      {"reducescattertensorcoalesced", "reduce_scatter_tensor_coalesced"},
      {"alltoall", "all_to_all"},
      {"alltoallbase", "all_to_all"},
      {"alltoallsingle", "all_to_all"},
      {"alltoallv", "all_to_all"},
      {"alltoallvsingle", "all_to_all"},
      {"broadcastoop", "broadcast"},
  }};
  for (auto [spelling, plain] : kNames) {
    if (key == spelling) return std::string(plain);
  }
  return key;
}

void merge_progress(Progress& whole, Progress&& part) {
  whole.groups.merge(part.groups);
  for (auto& [rank, progress] : part.ranks) {
    RankProgress& target = whole.ranks[rank];
    for (auto& [group, status] : progress.groups) {
      GroupStatus& known = target.groups[group];
      known.enqueued = std::max(known.enqueued, status.enqueued);
      known.started = std::max(known.started, status.started);
      known.completed = std::max(known.completed, status.completed);
    }
    std::move(progress.calls.begin(), progress.calls.end(), std::back_inserter(target.calls));
    target.is_complete = target.is_complete || progress.is_complete;
    if (target.source.empty()) target.source = progress.source;
  }
  whole.ranks_seen.merge(part.ranks_seen);
  whole.world_size = std::max(whole.world_size, part.world_size);
  whole.is_snapshot = whole.is_snapshot || part.is_snapshot;
  std::move(part.claims.begin(), part.claims.end(), std::back_inserter(whole.claims));
  std::move(part.failures.begin(), part.failures.end(), std::back_inserter(whole.failures));
  if (whole.first_failed_rank < 0) whole.first_failed_rank = part.first_failed_rank;
  std::move(part.sources.begin(), part.sources.end(), std::back_inserter(whole.sources));
}

void unify_groups(Progress& progress) {
  std::map<std::string, std::vector<std::string>>
      recorded;  // name -> keys of groups with known ranks
  for (const auto& [key, group] : progress.groups) {
    if (!group.ranks.empty()) recorded[group.name].push_back(key);
  }
  auto better_key = [&](const std::string& key, int rank) {
    auto group = progress.groups.find(key);
    if (group == progress.groups.end() || !group->second.ranks.empty()) return key;
    auto same_name = recorded.find(group->second.name);
    if (same_name == recorded.end()) return key;
    for (const std::string& candidate : same_name->second) {
      const std::vector<int>& ranks = progress.groups.at(candidate).ranks;
      if (std::binary_search(ranks.begin(), ranks.end(), rank)) return candidate;
    }
    return key;
  };
  for (auto& [rank, record] : progress.ranks) {
    for (Call& call : record.calls) call.group = better_key(call.group, rank);
    std::map<std::string, GroupStatus> groups;
    for (auto& [key, status] : record.groups) {
      GroupStatus& target = groups[better_key(key, rank)];
      target.enqueued = std::max(target.enqueued, status.enqueued);
      target.started = std::max(target.started, status.started);
      target.completed = std::max(target.completed, status.completed);
    }
    record.groups = std::move(groups);
  }
}

std::string rank_list(const std::set<int>& ranks) {
  std::string out;
  for (auto at = ranks.begin(); at != ranks.end();) {
    int first = *at;
    int last = first;
    while (++at != ranks.end() && *at == last + 1) last = *at;
    if (!out.empty()) out += ", ";
    out += last > first + 1    ? fmt::format("{}-{}", first, last)
           : last == first + 1 ? fmt::format("{}, {}", first, last)
                               : fmt::format("{}", first);
  }
  return out;
}

std::string rank_list(const std::vector<int>& ranks) {
  return rank_list(std::set<int>(ranks.begin(), ranks.end()));
}

}  // namespace monograph::diagnose
