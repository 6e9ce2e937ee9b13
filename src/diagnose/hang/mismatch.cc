#include "diagnose/hang/mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace monograph::diagnose {
namespace {

using CallsByRank = std::vector<std::pair<int, const Call*>>;
using CallsBySequence = std::map<int64_t, CallsByRank>;

// Batches hide what they hold, so their names and sizes say nothing.
bool is_batch(const Call& call) {
  return call.op == "coalesced";
}

bool sizes_must_agree(const std::string& op) {
  static constexpr std::array<std::string_view, 6> kEqual{
      "all_reduce",      "broadcast",           "reduce",
      "all_gather_base", "reduce_scatter_base", "all_reduce_coalesced"};
  return std::find(kEqual.begin(), kEqual.end(), op) != kEqual.end();
}

std::string describe(const Call& call) {
  std::string out = call.op;
  if (!call.shape_in.empty()) {
    out += " " + call.shape_in;
  } else if (call.num_elements_in >= 0) {
    out += fmt::format(" of {} elements", call.num_elements_in);
  }
  if (!call.dtype.empty()) out += " " + call.dtype;
  return out;
}

std::string site_of(const Call& call) {
  return call.caller == nullptr ? "" : fmt::format("{}:{}", call.caller->file, call.caller->line);
}

// Splits the calls by what `key` says; calls with an empty key know nothing and take no side.
std::optional<Mismatch> split(Mismatch::Aspect aspect, const CallsByRank& calls,
                              const std::function<std::string(const Call&)>& key,
                              const std::function<std::string(const Call&)>& what) {
  std::map<std::string, Mismatch::Side> sides;
  for (auto [rank, call] : calls) {
    std::string value = key(*call);
    if (value.empty()) continue;
    Mismatch::Side& side = sides[value];
    side.ranks.push_back(rank);
    side.call = call;
    side.what = what(*call);
  }
  if (sides.size() < 2) return std::nullopt;
  Mismatch found;
  found.aspect = aspect;
  for (auto& [value, side] : sides) found.sides.push_back(std::move(side));
  std::stable_sort(found.sides.begin(), found.sides.end(),
                   [](const auto& a, const auto& b) { return a.ranks.size() > b.ranks.size(); });
  bool tie = found.sides[0].ranks.size() == found.sides[1].ranks.size();
  for (size_t i = tie ? 0 : 1; i < found.sides.size(); ++i) {
    const std::vector<int>& ranks = found.sides[i].ranks;
    found.culprits.insert(found.culprits.end(), ranks.begin(), ranks.end());
  }
  std::sort(found.culprits.begin(), found.culprits.end());
  found.pending =
      std::any_of(calls.begin(), calls.end(), [](const auto& c) { return c.second->pending; });
  return found;
}

std::optional<Mismatch> compare(const CallsByRank& calls) {
  if (std::any_of(calls.begin(), calls.end(), [](const auto& c) { return is_batch(*c.second); })) {
    return std::nullopt;
  }
  auto op = [](const Call& call) { return call.op; };
  if (auto found = split(Mismatch::Aspect::kOp, calls, op, describe)) return found;
  const std::string& name = calls.front().second->op;
  if (sizes_must_agree(name)) {
    auto size = [](const Call& call) {
      if (call.num_elements_in < 0 && call.num_elements_out < 0) return std::string();
      return fmt::format("{} {}", call.num_elements_in, call.num_elements_out);
    };
    if (auto found = split(Mismatch::Aspect::kSize, calls, size, describe)) return found;
  }
  if (name == "barrier") return std::nullopt;
  auto dtype = [](const Call& call) { return call.dtype; };
  return split(Mismatch::Aspect::kDtype, calls, dtype, describe);
}

// A rank that skipped a call makes the next one with this number, and so on to its end. The first
// number from which some ranks differ from the majority's call site at every number that is left.
std::optional<Mismatch> compare_sites(const CallsBySequence& by_sequence) {
  size_t num_ranks = 0;
  for (const auto& [sequence, calls] : by_sequence) num_ranks = std::max(num_ranks, calls.size());
  std::optional<Mismatch> first;
  int64_t first_sequence = -1;
  for (auto at = by_sequence.rbegin(); at != by_sequence.rend(); ++at) {
    if (at->second.size() < 2) continue;
    auto describe_site = [](const Call& call) { return describe(call) + " at " + site_of(call); };
    std::optional<Mismatch> here =
        split(Mismatch::Aspect::kCallSite, at->second, site_of, describe_site);
    // Past the last call of the rank that skipped, the others agree among themselves.
    if (!here && at->second.size() < num_ranks) continue;
    if (!here || here->culprits.size() == at->second.size()) break;
    if (first && here->culprits != first->culprits) break;
    first = std::move(here);
    first_sequence = at->first;
  }
  // Different from the first record on: the ranks simply run different code.
  if (!first || first_sequence == by_sequence.begin()->first) return std::nullopt;
  first->sequence = first_sequence;
  return first;
}

}  // namespace

std::vector<Mismatch> find_mismatches(const Progress& progress) {
  std::map<std::string, CallsBySequence> groups;
  for (const auto& [rank, record] : progress.ranks) {
    for (const Call& call : record.calls) {
      if (call.is_p2p || call.sequence < 0) continue;
      CallsByRank& calls = groups[call.group][call.sequence];
      // A batch records several calls under one number; they are compared as the batch.
      if (!calls.empty() && calls.back().first == rank) {
        if (calls.back().second->caller == nullptr) calls.back().second = &call;
      } else {
        calls.emplace_back(rank, &call);
      }
    }
  }
  std::vector<Mismatch> result;
  for (const auto& [group, by_sequence] : groups) {
    std::optional<Mismatch> found;
    for (const auto& [sequence, calls] : by_sequence) {
      if (calls.size() > 1) found = compare(calls);
      if (found) {
        found->sequence = sequence;
        break;
      }
    }
    if (!found) found = compare_sites(by_sequence);
    if (!found) continue;
    found->group = group;
    result.push_back(std::move(*found));
  }
  return result;
}

}  // namespace monograph::diagnose
