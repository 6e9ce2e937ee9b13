#include "diagnose/nccl/nccl_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "diagnose/nccl/nccl_checker.h"

namespace monograph::diagnose {
namespace {

std::string_view datatype_name(int code) {
  static constexpr std::array<std::string_view, 12> kNames{
      "int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
      "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return code >= 0 && code < static_cast<int>(kNames.size()) ? kNames[static_cast<size_t>(code)]
                                                             : "";
}

}  // namespace

std::vector<Finding> check_nccl(const NcclLog& log) {
  std::vector<Finding> findings;
  check_nccl_setup(log, findings);
  check_nccl_transport(log, findings);
  return findings;
}

Progress nccl_progress(const NcclLog& log) {
  Progress progress;
  std::map<std::string, std::map<int, uint64_t>> last;
  for (const auto& [id, by_address] : log.calls) {
    for (const auto& [address, calls] : by_address) {
      auto named = log.communicator_at.find({id, address});
      if (named == log.communicator_at.end() || calls.empty()) continue;
      auto communicator = log.communicators.find(named->second);
      if (communicator == log.communicators.end()) continue;
      int rank = -1;
      for (const auto& [number, process] : communicator->second.completed) {
        if (process == id) rank = number;
      }
      if (rank < 0) continue;
      std::string key = group_key(named->second, {});
      progress.groups[key].name = named->second;
      for (const NcclCall& from : calls) {
        Call call;
        call.group = key;
        call.op = plain_op(from.op);
        call.is_p2p = call.op == "send" || call.op == "recv";
        call.sequence = static_cast<int64_t>(from.op_count);
        call.num_elements_in = from.count;
        call.dtype = datatype_name(from.datatype);
        call.state =
            CallState::kCompleted;  // the trace does not say; only what was called is compared
        progress.ranks[rank].calls.push_back(std::move(call));
      }
      last[key][rank] = calls.back().op_count;
    }
  }
  if (log.is_torn_down) return progress;
  for (const auto& [key, by_rank] : last) {
    auto [least, most] =
        std::minmax_element(by_rank.begin(), by_rank.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
    if (least->second == most->second) continue;
    std::vector<int> behind;
    for (const auto& [rank, count] : by_rank) {
      if (count == least->second) behind.push_back(rank);
    }
    progress.claims.push_back(
        {Claim::Kind::kBehind, key, std::move(behind),
         fmt::format("called collectives up to opCount {:x} where others came to {:x}",
                     least->second, most->second),
         ""});
  }
  return progress;
}

}  // namespace monograph::diagnose
