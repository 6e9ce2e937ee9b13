#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "comm/job_watch.h"

namespace monograph::comm {
namespace {

using State = RankReport::State;

std::string words_for(State state, bool is_one) {
  const char* verb = is_one ? "is" : "are";
  switch (state) {
    case State::kGone:
      return fmt::format("{} gone: the process ended or lost its host", verb);
    case State::kSilent:
      return fmt::format("{} not answering: stopped, swapped out, or the host is cut off", verb);
    case State::kNeverCame:
      return "never joined the job";
    case State::kLeft:
      return fmt::format("left the job without this call");
    case State::kAlive:
      break;
  }
  return fmt::format("{} alive", verb);
}

Failure blame(const std::vector<int>& ranks, State state) {
  return {ranks, describe_ranks(ranks) + " " + words_for(state, ranks.size() == 1)};
}

std::vector<int> ranks_in(State state, const std::vector<int>& among,
                          const std::vector<RankReport>& reports) {
  std::vector<int> found;
  for (int rank : among) {
    if (reports[static_cast<size_t>(rank)].state == state) found.push_back(rank);
  }
  return found;
}

std::optional<Failure> find_lost(const Group& group, const std::vector<RankReport>& reports) {
  for (State state : {State::kGone, State::kNeverCame, State::kSilent}) {
    if (auto lost = ranks_in(state, group.ranks, reports); !lost.empty()) return blame(lost, state);
  }
  std::vector<int> world(reports.size());
  for (size_t rank = 0; rank < world.size(); ++rank) world[rank] = static_cast<int>(rank);
  for (State state : {State::kGone, State::kSilent}) {
    auto lost = ranks_in(state, world, reports);
    if (lost.empty()) continue;
    Failure failure = blame(lost, state);
    failure.reason += " (outside this group)";
    return failure;
  }
  if (auto left = ranks_in(State::kLeft, group.ranks, reports); !left.empty()) {
    return blame(left, State::kLeft);
  }
  return std::nullopt;
}

// Ranks that are alive but have not begun the call.
std::optional<Failure> find_absent(const Group& group, const Call& call,
                                   const std::vector<RankReport>& reports) {
  Failure failure;
  for (int rank : group.ranks) {
    const auto& progress = reports[static_cast<size_t>(rank)].progress;
    if (rank == group.world_rank()) continue;
    if (progress && progress->call.sequence >= call.sequence) continue;
    failure.at_fault.push_back(rank);
    if (failure.at_fault.size() > 3) continue;  // a few tell the story
    const std::string last =
        !progress ? "it called none before"
                  : fmt::format("its last was {}{} {}", progress->is_done ? "" : "(not ended) ",
                                fmt::format("#{}", progress->call.sequence),
                                describe(progress->call, group));
    failure.reason += fmt::format("{}rank {} is alive but did not call it: {}",
                                  failure.reason.empty() ? "" : "; ", rank, last);
  }
  if (failure.at_fault.empty()) return std::nullopt;
  if (failure.at_fault.size() > 3) {
    failure.reason += fmt::format("; {} ranks did not call it", failure.at_fault.size());
  }
  return failure;
}

// Ranks whose call of this number differs from what most ranks call.
std::optional<Failure> find_mismatch(const Group& group, const Call& call,
                                     const std::vector<RankReport>& reports) {
  std::map<std::string, std::vector<int>> by_call;
  for (int rank : group.ranks) {
    const auto& progress = reports[static_cast<size_t>(rank)].progress;
    const bool is_own = rank == group.world_rank();
    if (!is_own && (!progress || progress->call.sequence != call.sequence)) continue;
    by_call[describe(is_own ? call : progress->call, group)].push_back(rank);
  }
  if (by_call.size() < 2) return std::nullopt;
  size_t most = 0;
  for (const auto& [text, ranks] : by_call) most = std::max(most, ranks.size());
  const bool is_tie = std::count_if(by_call.begin(), by_call.end(), [&](const auto& entry) {
                        return entry.second.size() == most;
                      }) > 1;
  Failure failure;
  for (const auto& [text, ranks] : by_call) {
    failure.reason += fmt::format("{}{} called {}", failure.reason.empty() ? "" : ", ",
                                  describe_ranks(ranks), text);
    if (is_tie || ranks.size() < most) {
      failure.at_fault.insert(failure.at_fault.end(), ranks.begin(), ranks.end());
    }
  }
  std::sort(failure.at_fault.begin(), failure.at_fault.end());
  failure.reason = "the ranks differ: " + failure.reason;
  return failure;
}

// A send or recv fails by its peer alone.
Failure judge_pair(const Group& group, const Call& call, const Trouble& trouble,
                   const std::vector<RankReport>& reports) {
  if (trouble.is_mismatch) return {trouble.suspects, trouble.what};
  const int peer = group.ranks[static_cast<size_t>(call.peer)];
  const State state = reports[static_cast<size_t>(peer)].state;
  if (state != State::kAlive) return blame({peer}, state);
  if (auto lost = find_lost(group, reports)) return *lost;
  const char* verb = call.operation == Operation::kSend ? "receive" : "send";
  return {{peer}, fmt::format("rank {} is alive but did not {} it ({})", peer, verb, trouble.what)};
}

}  // namespace

Milliseconds grace_of(Milliseconds timeout) {
  return std::min(Milliseconds(5000), timeout / 2);
}

Failure judge(const Group& group, const Call& call, const Trouble& trouble,
              const std::vector<RankReport>& reports) {
  if (is_pairwise(call.operation)) return judge_pair(group, call, trouble, reports);
  if (trouble.is_mismatch) {
    return find_mismatch(group, call, reports).value_or(Failure{trouble.suspects, trouble.what});
  }
  if (auto lost = find_lost(group, reports)) return *lost;
  if (auto absent = find_absent(group, call, reports)) return *absent;
  if (auto mismatch = find_mismatch(group, call, reports)) return *mismatch;
  return {trouble.suspects,
          fmt::format("all ranks are in this call and answer ({}): the network or a rank is "
                      "slower than the timeout",
                      trouble.what)};
}

}  // namespace monograph::comm
