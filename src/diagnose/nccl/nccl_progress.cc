#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "diagnose/nccl/nccl_checks.h"

namespace monograph::diagnose {
namespace {

constexpr size_t kResume = 8;  // calls that must agree again after one is taken for a lost line

std::string_view datatype_name(int code) {
  static constexpr std::array<std::string_view, 12> kNames{
      "int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
      "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return code >= 0 && code < static_cast<int>(kNames.size()) ? kNames[static_cast<size_t>(code)]
                                                             : "";
}

bool is_pair(const NcclCall& call) {
  return call.op == "Send" || call.op == "Recv";
}

bool same(const NcclCall& a, const NcclCall& b) {
  return a.op == b.op && a.count == b.count && a.datatype == b.datatype;
}

// One rank's collectives of a communicator, with the numbers they have on all ranks.
struct RankCalls {
  std::vector<NcclCall> calls;
  std::vector<int64_t> numbers;
};

bool counts_up(const std::vector<NcclCall>& calls) {
  return std::adjacent_find(calls.begin(), calls.end(), [](const NcclCall& a, const NcclCall& b) {
           return a.op_count >= b.op_count;
         }) == calls.end();
}

// Numbers by place in the longest list. Where a list differs and agrees again after one more of the
// longest, a line was lost in the log.
std::vector<int64_t> align(const std::vector<NcclCall>& longest,
                           const std::vector<NcclCall>& calls) {
  std::vector<int64_t> numbers;
  size_t place = 0;
  for (size_t i = 0; i < calls.size(); ++i, ++place) {
    bool lost = place + 1 < longest.size() && !same(longest[place], calls[i]);
    for (size_t k = 0;
         lost && k < kResume && i + k < calls.size() && place + 1 + k < longest.size(); ++k) {
      lost = same(longest[place + 1 + k], calls[i + k]);
    }
    if (lost) ++place;
    numbers.push_back(static_cast<int64_t>(place) + 1);
  }
  return numbers;
}

void number(std::map<int, RankCalls>& ranks) {
  // opCount stays 0 in some versions.
  bool by_count = std::all_of(ranks.begin(), ranks.end(),
                              [](const auto& entry) { return counts_up(entry.second.calls); });
  const RankCalls* longest = nullptr;
  for (const auto& [rank, list] : ranks) {
    if (longest == nullptr || list.calls.size() > longest->calls.size()) longest = &list;
  }
  for (auto& [rank, list] : ranks) {
    if (!by_count) {
      list.numbers = align(longest->calls, list.calls);
      continue;
    }
    for (const NcclCall& call : list.calls)
      list.numbers.push_back(static_cast<int64_t>(call.op_count));
  }
}

std::map<std::string, std::map<int, RankCalls>> calls_by_communicator(const NcclLog& log) {
  std::map<std::string, std::map<int, RankCalls>> result;
  for (const auto& [id, by_address] : log.calls) {
    for (const auto& [address, list] : by_address) {
      auto named = log.communicator_at.find({id, address});
      if (named == log.communicator_at.end() || list.num_dropped > 0) continue;
      auto communicator = log.communicators.find(named->second);
      if (communicator == log.communicators.end()) continue;
      for (const auto& [rank, process] : communicator->second.completed) {
        if (process != id) continue;
        std::vector<NcclCall>& calls = result[named->second][rank].calls;
        std::copy_if(list.calls.begin(), list.calls.end(), std::back_inserter(calls),
                     [](const NcclCall& call) { return !is_pair(call); });
      }
    }
  }
  return result;
}

void add_behind(const std::string& key, const std::map<int, RankCalls>& ranks, Progress& progress) {
  std::map<int, int64_t> last;
  for (const auto& [rank, list] : ranks)
    last[rank] = list.numbers.empty() ? 0 : list.numbers.back();
  auto [least, most] = std::minmax_element(
      last.begin(), last.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least->second == most->second) return;
  std::vector<int> behind;
  for (const auto& [rank, number] : last) {
    if (number == least->second) behind.push_back(rank);
  }
  progress.claims.push_back(
      {Claim::Kind::kBehind, key, std::move(behind),
       fmt::format("called {} collectives where others called {}", least->second, most->second),
       ""});
}

}  // namespace

Progress nccl_progress(const NcclLog& log) {
  Progress progress;
  for (auto& [id, ranks] : calls_by_communicator(log)) {
    number(ranks);
    std::string key = group_key(id, {});
    progress.groups[key].name = id;
    for (const auto& [rank, list] : ranks) {
      for (size_t i = 0; i < list.calls.size(); ++i) {
        Call call;
        call.group = key;
        call.op = plain_op(list.calls[i].op);
        call.sequence = list.numbers[i];
        call.num_elements_in = list.calls[i].count;
        call.dtype = datatype_name(list.calls[i].datatype);
        call.state =
            CallState::kCompleted;  // the trace does not say; only what was called is compared
        progress.ranks[rank].calls.push_back(std::move(call));
      }
    }
    if (!log.is_torn_down && ranks.size() > 1) add_behind(key, ranks, progress);
  }
  return progress;
}

}  // namespace monograph::diagnose
