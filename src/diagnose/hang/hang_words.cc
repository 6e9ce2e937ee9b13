#include "diagnose/hang/hang_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

const Call* last_call(const Progress& progress, int rank) {
  auto record = progress.ranks.find(rank);
  if (record == progress.ranks.end() || record->second.calls.empty()) return nullptr;
  return &record->second.calls.back();
}

std::string_view aspect_name(Mismatch::Aspect aspect) {
  switch (aspect) {
    case Mismatch::Aspect::kOp:
      return "operation";
    case Mismatch::Aspect::kSize:
      return "size";
    case Mismatch::Aspect::kDtype:
      return "dtype";
    case Mismatch::Aspect::kCallSite:
      return "call site";
  }
  return "";
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", rank_list(ranks));
}

std::string site(const Call& call) {
  const StackFrame* frame = call.caller.get();
  if (frame == nullptr) return {};
  return fmt::format("{} ({}:{})", frame->function, frame->file, frame->line);
}

StackFrame frame_of(const Call& call) {
  return call.caller == nullptr ? StackFrame() : *call.caller;
}

const Call* find_call(const Progress& progress, int rank, const std::string& group,
                      int64_t sequence) {
  auto record = progress.ranks.find(rank);
  if (record == progress.ranks.end()) return nullptr;
  for (const Call& call : record->second.calls) {
    if (call.group == group && call.sequence == sequence && !call.is_p2p) return &call;
  }
  return nullptr;
}

std::string call_title(const Progress& progress, const std::string& op, const std::string& group,
                       int64_t sequence) {
  return fmt::format("{} #{} of {}", op.empty() ? "collective" : op, sequence,
                     group_title(progress, group));
}

SharedWait main_wait(const std::vector<WaitEdge>& edges, const std::vector<int>& culprits) {
  std::map<std::pair<std::string, int64_t>, SharedWait> waits;
  for (const WaitEdge& edge : edges) {
    if (!std::binary_search(culprits.begin(), culprits.end(), edge.waited_on)) continue;
    SharedWait& wait = waits[{edge.group, edge.sequence}];
    wait.group = edge.group;
    wait.sequence = edge.sequence;
    if (wait.op.empty()) wait.op = edge.op;
    if (wait.waiters.empty() || edge.created_ns < wait.created_ns)
      wait.created_ns = edge.created_ns;
    wait.waiters.push_back(edge.waiter);
    wait.on_device = edge.why == WaitEdge::Why::kNotStarted;
    wait.no_record = edge.why == WaitEdge::Why::kNoRecord;
  }
  SharedWait best;
  for (auto& [key, wait] : waits) {
    std::sort(wait.waiters.begin(), wait.waiters.end());
    wait.waiters.erase(std::unique(wait.waiters.begin(), wait.waiters.end()), wait.waiters.end());
    bool better = wait.waiters.size() > best.waiters.size() ||
                  (wait.waiters.size() == best.waiters.size() && wait.created_ns < best.created_ns);
    if (better) best = wait;
  }
  return best;
}

void describe_mismatch(const Progress& progress, const Mismatch& mismatch, Hang& hang) {
  const Mismatch::Side& most = mismatch.sides.front();
  const Mismatch::Side& odd = mismatch.sides.back();
  hang.culprits = mismatch.culprits;
  hang.group = mismatch.group;
  hang.sequence = mismatch.sequence;
  hang.op = most.call->op;
  bool tie = mismatch.culprits.size() > odd.ranks.size() && mismatch.sides.size() == 2;
  hang.headline = fmt::format(
      "{} mismatch in collective #{} of {}: {} {} {}, {} {} {}", aspect_name(mismatch.aspect),
      mismatch.sequence, group_title(progress, mismatch.group), ranks_text(odd.ranks),
      odd.ranks.size() == 1 ? "calls" : "call", odd.what, ranks_text(most.ranks),
      most.ranks.size() == 1 ? "calls" : "call", most.what);
  std::string odd_site = site(*odd.call);
  std::string most_site = site(*most.call);
  hang.place = frame_of(*odd.call);
  hang.reason =
      fmt::format("desync: the ranks gave the number {} of {} to different calls{}",
                  mismatch.sequence, group_title(progress, mismatch.group),
                  mismatch.aspect == Mismatch::Aspect::kOp
                      ? ", so from here on each waits for a call that the others do not make"
                      : ", so the data cannot be exchanged");
  if (tie) hang.reason += "; neither side is the larger, so either may be the wrong one";
  hang.advice = mismatch.aspect == Mismatch::Aspect::kOp
                    ? fmt::format(
                          "make every rank call the same collectives in the same order: look for "
                          "a branch on rank or data before {}",
                          odd_site.empty() ? "this call" : odd_site)
                    : fmt::format("make the {} equal on all ranks before this call: look at {}",
                                  aspect_name(mismatch.aspect),
                                  mismatch.aspect == Mismatch::Aspect::kSize
                                      ? "uneven batches, padding or sharding"
                                      : "autocast and per-rank casts");
  for (const Mismatch::Side& side : mismatch.sides) {
    std::string where = site(*side.call);
    hang.evidence.push_back(fmt::format("{}: {}{}{}", ranks_text(side.ranks), side.what,
                                        where.empty() ? "" : " from ", where));
  }
}

void describe_missing(const Progress& progress, const SharedWait& wait, Hang& hang) {
  std::string what = call_title(progress, wait.op, wait.group, wait.sequence);
  std::string who = ranks_text(hang.culprits);
  bool one = hang.culprits.size() == 1;
  std::string verb = wait.no_record   ? one ? "left no record of" : "left no record of"
                     : wait.on_device ? "issued but never started"
                                      : "never entered";
  hang.headline =
      fmt::format("{} {} {}; {} wait{} for {}", who, verb, what, ranks_text(wait.waiters),
                  wait.waiters.size() == 1 ? "s" : "", one ? "it" : "them");
  hang.reason = fmt::format(
      "desync: every wait between the ranks ends at {}, and {} wait{} for nobody{}", who,
      one ? "it" : "they", one ? "s" : "",
      wait.on_device ? "; the device is busy or stuck in work before the collective" : "");
  if (const Call* waiting = find_call(progress, wait.waiters.front(), wait.group, wait.sequence)) {
    hang.place = frame_of(*waiting);
  }
  hang.advice =
      wait.on_device
          ? fmt::format(
                "look at the GPU of {}: Xid errors in dmesg, nvidia-smi, and the kernel "
                "that runs there (cuda-gdb or CUDA_LAUNCH_BLOCKING=1)",
                who)
          : fmt::format(
                "look at what {} did instead: stack (py-spy dump), log, dmesg and GPU health; a "
                "branch that skips the call, data loading, a lock or a dead GPU are the usual "
                "causes",
                who);
  for (int rank : hang.culprits) {
    if (const Call* last = last_call(progress, rank)) {
      std::string where = site(*last);
      hang.evidence.push_back(
          fmt::format("last call of rank {}: {}{}{}", rank,
                      call_title(progress, last->op, last->group, last->sequence),
                      where.empty() ? "" : " from ", where));
    } else if (progress.ranks.contains(rank)) {
      hang.evidence.push_back(
          fmt::format("rank {} has no unfinished call: all that it issued is done", rank));
    } else {
      hang.evidence.push_back(fmt::format("rank {} left no dump or watchdog line", rank));
    }
  }
  for (const Mismatch& mismatch : hang.mismatches) {
    if (mismatch.aspect != Mismatch::Aspect::kCallSite) continue;
    const Mismatch::Side& odd = mismatch.sides.back();
    hang.evidence.push_back(
        fmt::format("from #{} of {} on, {} {} not where the others are: {}, others {}",
                    mismatch.sequence, group_title(progress, mismatch.group), ranks_text(odd.ranks),
                    odd.ranks.size() == 1 ? "is" : "are", odd.what, mismatch.sides.front().what));
  }
}

void describe_failure(const Failure& failure, Hang& hang) {
  const bool lost_peer = hang.kind == Hang::Kind::kLostPeer;
  const std::string who = hang.culprits.empty() ? "a process" : ranks_text(hang.culprits);
  const bool by_signal = failure.message.starts_with("killed by");
  hang.headline = by_signal ? fmt::format("{} was {}", who, title(failure))
                            : fmt::format("{} {}: {}", who, lost_peer ? "lost a peer" : "failed",
                                          title(failure));
  std::set<int> waiters;
  for (const WaitEdge& edge : hang.edges) waiters.insert(edge.waiter);
  for (const int rank : hang.culprits) waiters.erase(rank);
  hang.reason = lost_peer ? "another rank ended or was cut off first, and these logs do not say "
                            "which or why"
                          : "nothing caught the exception";
  if (!lost_peer && failure.type.empty()) hang.reason = "the process did not end by itself";
  if (!waiters.empty() && !lost_peer) {
    const std::vector<int> ranks(waiters.begin(), waiters.end());
    hang.reason +=
        fmt::format("; {} then waited in vain for what it should have joined", ranks_text(ranks));
  }
  hang.advice = lost_peer ? "read the logs of all ranks together, with torchrun's own output: the "
                            "one that ended first has the cause; NCCL_DEBUG=INFO tells more"
                          : failure_advice(failure);
  const auto own = std::find_if(failure.frames.begin(), failure.frames.end(),
                                [](const StackFrame& f) { return !is_library_file(f.file); });
  if (own != failure.frames.end()) {
    hang.place = *own;
  } else if (const StackFrame* frame = user_frame(failure.frames)) {
    hang.place = *frame;
  }
  hang.evidence.push_back(failure.type.empty() ? failure.message
                                               : failure.type + ": " + failure.message);
  constexpr size_t kMaxFrames = 4;
  for (size_t i = 0; i < std::min(failure.frames.size(), kMaxFrames); ++i) {
    const StackFrame& frame = failure.frames[i];
    hang.evidence.push_back(fmt::format("  in {} ({}:{})", frame.function, frame.file, frame.line));
  }
}

void describe_cycle(const Progress& progress, Hang& hang) {
  hang.headline =
      fmt::format("{} wait for each other: they issued their collectives in different orders",
                  ranks_text(hang.culprits));
  hang.reason = "deadlock: the waits between these ranks form a ring";
  hang.advice =
      "issue collectives of different groups, and sends and receives, in one order on all ranks "
      "(sort by "
      "group, or batch_isend_irecv)";
  for (int rank : hang.culprits) {
    for (const WaitEdge& edge : hang.edges) {
      if (edge.waiter != rank) continue;
      const Call* call = find_call(progress, rank, edge.group, edge.sequence);
      std::string where = call == nullptr ? "" : site(*call);
      if (hang.place.file.empty() && call != nullptr) hang.place = frame_of(*call);
      hang.evidence.push_back(fmt::format("rank {} waits in {} for rank {}{}{}", rank,
                                          call_title(progress, edge.op, edge.group, edge.sequence),
                                          edge.waited_on, where.empty() ? "" : ", from ", where));
      break;
    }
  }
}

// One line for each call that somebody waits in.
void describe_waits(const Progress& progress, Hang& hang) {
  struct Wait {
    std::set<int> waiters;
    std::set<int> targets;
  };
  std::map<std::string, Wait> waits;  // by what people read
  for (const WaitEdge& edge : hang.edges) {
    // Pairs number their calls one by one, and every stage of a pipeline has a group of its own.
    bool is_pair = edge.op == "send" || edge.op == "recv";
    auto group = progress.groups.find(edge.group);
    std::string what =
        is_pair && group != progress.groups.end() && !group->second.description.empty()
            ? fmt::format("{} of {}", edge.op, group->second.description)
            : call_title(progress, edge.op, edge.group, edge.sequence);
    Wait& wait = waits[what];
    wait.waiters.insert(edge.waiter);
    wait.targets.insert(edge.waited_on);
  }
  std::vector<std::pair<size_t, std::string>> lines;
  for (const auto& [what, wait] : waits) {
    std::vector<int> waiters(wait.waiters.begin(), wait.waiters.end());
    std::vector<int> targets(wait.targets.begin(), wait.targets.end());
    lines.emplace_back(waiters.size(),
                       fmt::format("{} in {} wait{} for {}", ranks_text(waiters), what,
                                   waiters.size() == 1 ? "s" : "", ranks_text(targets)));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [count, line] : lines) hang.evidence.push_back(std::move(line));
}

}  // namespace monograph::diagnose
