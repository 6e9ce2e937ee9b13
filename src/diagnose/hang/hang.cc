#include "diagnose/hang/hang.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

namespace monograph::diagnose {
namespace {

constexpr size_t kMaxEvidence = 12;

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", rank_list(ranks));
}

std::string seconds(int64_t ns) {
  return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9);
}

std::string site(const Call& call) {
  const StackFrame* frame = user_frame(call);
  if (frame == nullptr) return {};
  return fmt::format("{} ({}:{})", frame->function, frame->file, frame->line);
}

StackFrame frame_of(const Call& call) {
  const StackFrame* frame = user_frame(call);
  return frame == nullptr ? StackFrame() : *frame;
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

const Call* last_call(const Progress& progress, int rank) {
  auto record = progress.ranks.find(rank);
  if (record == progress.ranks.end() || record->second.calls.empty()) return nullptr;
  return &record->second.calls.back();
}

// The wait that most ranks share and that points at a culprit: the answer names it.
struct SharedWait {
  std::string group;
  int64_t sequence = -1;
  std::string op;
  std::vector<int> waiters;
  int64_t created_ns = 0;  // when the first waiter entered
  bool on_device = false;
  bool no_record = false;
};

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

class Judge {
 public:
  explicit Judge(Progress progress) : progress_(std::move(progress)) {
    hang_.mismatches = find_mismatches(progress_);
    hang_.edges = wait_edges(progress_);
  }

  Hang judge() {
    if (has_trouble() &&
        (by_mismatch() || by_claim() || by_waiting() || by_stall() || by_counts())) {
      add_lateness();
      add_claims();
      if (hang_.evidence.size() > kMaxEvidence) hang_.evidence.resize(kMaxEvidence);
    }
    return std::move(hang_);
  }

 private:
  std::string title(const std::string& group) const { return group_title(progress_, group); }

  std::string call_title(const std::string& op, const std::string& group, int64_t sequence) const {
    return fmt::format("{} #{} of {}", op.empty() ? "collective" : op, sequence, title(group));
  }

  // A log of a healthy job also ends with some ranks one call ahead of others.
  bool has_trouble() const {
    for (const Claim& claim : progress_.claims) {
      if (claim.kind != Claim::Kind::kNote) return true;
    }
    for (const Mismatch& mismatch : hang_.mismatches) {
      if (mismatch.aspect != Mismatch::Aspect::kCallSite) return true;
    }
    if (!hang_.edges.empty()) return true;
    for (const auto& [rank, record] : progress_.ranks) {
      for (const Call& call : record.calls) {
        if (call.pending) return true;
      }
    }
    return false;
  }

  bool by_mismatch() {
    const Mismatch* worst = nullptr;
    for (const Mismatch& mismatch : hang_.mismatches) {
      bool skipped = mismatch.aspect == Mismatch::Aspect::kCallSite && hang_.edges.empty();
      if (skipped) continue;
      if (worst == nullptr || mismatch.aspect < worst->aspect) worst = &mismatch;
    }
    // A rank that lags is a better answer than call sites that differ.
    if (worst == nullptr || worst->aspect == Mismatch::Aspect::kCallSite) return false;
    hang_.kind = Hang::Kind::kMismatch;
    describe_mismatch(*worst);
    describe_edges();
    return true;
  }

  static std::string_view aspect_name(Mismatch::Aspect aspect) {
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

  void describe_mismatch(const Mismatch& mismatch) {
    const Mismatch::Side& most = mismatch.sides.front();
    const Mismatch::Side& odd = mismatch.sides.back();
    hang_.culprits = mismatch.culprits;
    hang_.group = mismatch.group;
    hang_.sequence = mismatch.sequence;
    hang_.op = most.call->op;
    bool tie = mismatch.culprits.size() > odd.ranks.size() && mismatch.sides.size() == 2;
    hang_.headline =
        fmt::format("{} mismatch in collective #{} of {}: {} {} {}, {} {} {}",
                    aspect_name(mismatch.aspect), mismatch.sequence, title(mismatch.group),
                    ranks_text(odd.ranks), odd.ranks.size() == 1 ? "calls" : "call", odd.what,
                    ranks_text(most.ranks), most.ranks.size() == 1 ? "calls" : "call", most.what);
    std::string odd_site = site(*odd.call);
    std::string most_site = site(*most.call);
    hang_.place = frame_of(*odd.call);
    hang_.reason =
        fmt::format("desync: the ranks gave the number {} of {} to different calls{}",
                    mismatch.sequence, title(mismatch.group),
                    mismatch.aspect == Mismatch::Aspect::kOp
                        ? ", so from here on each waits for a call that the others do not make"
                        : ", so the data cannot be exchanged");
    if (tie) hang_.reason += "; neither side is the larger, so either may be the wrong one";
    hang_.advice =
        mismatch.aspect == Mismatch::Aspect::kOp
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
      hang_.evidence.push_back(fmt::format("{}: {}{}{}", ranks_text(side.ranks), side.what,
                                           where.empty() ? "" : " from ", where));
    }
  }

  bool by_claim() {
    std::set<int> late;
    const Claim* first = nullptr;
    for (const Claim& claim : progress_.claims) {
      bool accuses =
          claim.kind == Claim::Kind::kDidNotEnter || claim.kind == Claim::Kind::kUnreachable;
      if (!accuses || claim.ranks.empty()) continue;
      late.insert(claim.ranks.begin(), claim.ranks.end());
      if (first == nullptr) first = &claim;
    }
    if (first == nullptr) return false;
    hang_.kind = Hang::Kind::kMissing;
    hang_.culprits.assign(late.begin(), late.end());
    hang_.group = first->group;
    const Call* awaited = awaited_call();
    hang_.op = awaited == nullptr ? "" : awaited->op;
    hang_.sequence = awaited == nullptr ? -1 : awaited->sequence;
    bool unreachable = first->kind == Claim::Kind::kUnreachable;
    std::string who = late.empty() ? "a process" : ranks_text(hang_.culprits);
    hang_.headline =
        unreachable ? fmt::format("{} {}", who, first->text)
                    : fmt::format("{} did not enter {} in time", ranks_text(hang_.culprits),
                                  awaited == nullptr
                                      ? "the collective"
                                      : call_title(awaited->op, awaited->group, awaited->sequence));
    if (awaited != nullptr) hang_.place = frame_of(*awaited);
    hang_.reason = unreachable ? "the process is stopped, dead or cut off from the network"
                               : "desync: the other ranks waited in it until the time limit";
    hang_.advice = fmt::format(
        "look at what {} did then: its own log, its stack (py-spy dump), dmesg and the machine's "
        "health; if it "
        "was only slow (loading data, saving, compiling), raise the timeout",
        who);
    describe_edges();
    return true;
  }

  // The newest collective that a rank outside the culprits entered.
  const Call* awaited_call() const {
    const Call* newest = nullptr;
    for (const auto& [rank, record] : progress_.ranks) {
      if (std::binary_search(hang_.culprits.begin(), hang_.culprits.end(), rank)) continue;
      for (const Call& call : record.calls) {
        if (newest == nullptr || call.sequence > newest->sequence) newest = &call;
      }
    }
    return newest;
  }

  bool by_waiting() {
    if (hang_.edges.empty()) return false;
    WaitSinks sinks = find_sinks(hang_.edges);
    hang_.kind = sinks.ranks.empty() ? Hang::Kind::kCycle : Hang::Kind::kMissing;
    hang_.is_certain = !progress_.is_snapshot;
    hang_.culprits.assign(sinks.ranks.begin(), sinks.ranks.end());
    if (sinks.ranks.empty()) {
      for (const std::vector<int>& cycle : sinks.cycles) {
        hang_.culprits.insert(hang_.culprits.end(), cycle.begin(), cycle.end());
      }
      std::sort(hang_.culprits.begin(), hang_.culprits.end());
    }
    SharedWait wait = main_wait(hang_.edges, hang_.culprits);
    hang_.group = wait.group;
    hang_.sequence = wait.sequence;
    hang_.op = wait.op;
    if (hang_.kind == Hang::Kind::kCycle) {
      describe_cycle();
    } else {
      describe_missing(wait);
    }
    describe_edges();
    if (!hang_.is_certain) {
      hang_.reason += "; but this is one look, and the job may have been running";
      hang_.advice = "ask RAS again; if the numbers stay, " + hang_.advice;
    }
    return true;
  }

  void describe_missing(const SharedWait& wait) {
    std::string what = call_title(wait.op, wait.group, wait.sequence);
    std::string who = ranks_text(hang_.culprits);
    bool one = hang_.culprits.size() == 1;
    std::string verb = wait.no_record   ? one ? "left no record of" : "left no record of"
                       : wait.on_device ? "issued but never started"
                                        : "never entered";
    hang_.headline =
        fmt::format("{} {} {}; {} wait{} for {}", who, verb, what, ranks_text(wait.waiters),
                    wait.waiters.size() == 1 ? "s" : "", one ? "it" : "them");
    hang_.reason = fmt::format(
        "desync: every wait between the ranks ends at {}, and {} wait{} for nobody{}", who,
        one ? "it" : "they", one ? "s" : "",
        wait.on_device ? "; the device is busy or stuck in work before the collective" : "");
    if (const Call* waiting =
            find_call(progress_, wait.waiters.front(), wait.group, wait.sequence)) {
      hang_.place = frame_of(*waiting);
    }
    hang_.advice =
        wait.on_device
            ? fmt::format(
                  "look at the GPU of {}: Xid errors in dmesg, nvidia-smi, and the kernel "
                  "that runs there (cuda-gdb or CUDA_LAUNCH_BLOCKING=1)",
                  who)
            : fmt::format(
                  "look at what {} did instead: its stack (py-spy dump), its log, dmesg and "
                  "GPU health; a branch that skips the call, data loading, a lock or a "
                  "dead GPU are the usual causes",
                  who);
    for (int rank : hang_.culprits) {
      if (const Call* last = last_call(progress_, rank)) {
        std::string where = site(*last);
        hang_.evidence.push_back(fmt::format("last call of rank {}: {}{}{}", rank,
                                             call_title(last->op, last->group, last->sequence),
                                             where.empty() ? "" : " from ", where));
      } else if (progress_.ranks.contains(rank)) {
        hang_.evidence.push_back(
            fmt::format("rank {} has no unfinished call: all that it issued is done", rank));
      } else {
        hang_.evidence.push_back(fmt::format("rank {} left no dump or watchdog line", rank));
      }
    }
    for (const Mismatch& mismatch : hang_.mismatches) {
      if (mismatch.aspect != Mismatch::Aspect::kCallSite) continue;
      const Mismatch::Side& odd = mismatch.sides.back();
      hang_.evidence.push_back(
          fmt::format("from #{} of {} on, {} {} not where the others are: {}, others {}",
                      mismatch.sequence, title(mismatch.group), ranks_text(odd.ranks),
                      odd.ranks.size() == 1 ? "is" : "are", odd.what, mismatch.sides.front().what));
    }
  }

  void describe_cycle() {
    hang_.headline =
        fmt::format("{} wait for each other: they issued their collectives in different orders",
                    ranks_text(hang_.culprits));
    hang_.reason = "deadlock: the waits between these ranks form a ring";
    hang_.advice =
        "issue collectives of different groups, and sends and receives, in one order on all ranks "
        "(sort by "
        "group, or batch_isend_irecv)";
    for (int rank : hang_.culprits) {
      for (const WaitEdge& edge : hang_.edges) {
        if (edge.waiter != rank) continue;
        const Call* call = find_call(progress_, rank, edge.group, edge.sequence);
        std::string where = call == nullptr ? "" : site(*call);
        if (hang_.place.file.empty() && call != nullptr) hang_.place = frame_of(*call);
        hang_.evidence.push_back(fmt::format("rank {} waits in {} for rank {}{}{}", rank,
                                             call_title(edge.op, edge.group, edge.sequence),
                                             edge.waited_on, where.empty() ? "" : ", from ",
                                             where));
        break;
      }
    }
  }

  // One line for each call that somebody waits in.
  void describe_edges() {
    struct Wait {
      std::set<int> waiters;
      std::set<int> targets;
    };
    std::map<std::string, Wait> waits;  // by what people read
    for (const WaitEdge& edge : hang_.edges) {
      // Pairs number their calls one by one, and every stage of a pipeline has a group of its own.
      bool is_pair = edge.op == "send" || edge.op == "recv";
      auto group = progress_.groups.find(edge.group);
      std::string what =
          is_pair && group != progress_.groups.end() && !group->second.description.empty()
              ? fmt::format("{} of {}", edge.op, group->second.description)
              : call_title(edge.op, edge.group, edge.sequence);
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
    for (auto& [count, line] : lines) hang_.evidence.push_back(std::move(line));
  }

  // Everybody is in the same unfinished call.
  bool by_stall() {
    std::map<std::pair<std::string, int64_t>, std::vector<const Call*>> pending;
    std::map<const Call*, int> rank_of;
    for (const auto& [rank, record] : progress_.ranks) {
      for (const Call& call : record.calls) {
        if (!call.pending) continue;
        pending[{call.group, call.sequence}].push_back(&call);
        rank_of[&call] = rank;
      }
    }
    const std::vector<const Call*>* widest = nullptr;
    for (const auto& [key, calls] : pending) {
      bool wider = widest == nullptr || calls.size() > widest->size() ||
                   (calls.size() == widest->size() && calls.front()->created_ns != 0 &&
                    calls.front()->created_ns < widest->front()->created_ns);
      if (wider) widest = &calls;
    }
    if (widest == nullptr) return false;
    const Call& call = *widest->front();
    std::vector<int> ranks;
    for (const Call* one : *widest) ranks.push_back(rank_of[one]);
    hang_.kind = Hang::Kind::kStall;
    hang_.group = call.group;
    hang_.sequence = call.sequence;
    hang_.op = call.op;
    hang_.place = frame_of(call);
    hang_.headline = fmt::format("{} entered {} and it does not finish", ranks_text(ranks),
                                 call_title(call.op, call.group, call.sequence));
    bool all_receive =
        call.op == "recv" && std::all_of(widest->begin(), widest->end(),
                                         [](const Call* one) { return one->op == "recv"; });
    if (all_receive && ranks.size() > 1) {
      hang_.kind = Hang::Kind::kCycle;
      hang_.culprits = ranks;
      hang_.headline = fmt::format("{} all receive ({}) and none sends", ranks_text(ranks),
                                   call_title(call.op, call.group, call.sequence));
      hang_.reason = "deadlock: each waits for another to send first";
      hang_.advice = "let one side send first, or post both with batch_isend_irecv";
      return true;
    }
    hang_.reason =
        "stall, not desync: all ranks of the group made the same call, so the transfer itself is "
        "stuck or slow";
    hang_.advice =
        "check the network and the GPUs of these ranks: NCCL_DEBUG=INFO logs, link errors, Xid in "
        "dmesg; if the "
        "call is only slow, raise the timeout";
    for (const auto& [key, calls] : pending) {
      hang_.evidence.push_back(fmt::format("{} unfinished on {} rank{}",
                                           call_title(calls.front()->op, key.first, key.second),
                                           calls.size(), calls.size() == 1 ? "" : "s"));
    }
    return true;
  }

  // One look by RAS: ranks that had issued fewer collectives.
  bool by_counts() {
    for (const Claim& claim : progress_.claims) {
      if (claim.kind != Claim::Kind::kBehind) continue;
      hang_.kind = Hang::Kind::kMissing;
      hang_.is_certain = false;
      hang_.culprits = claim.ranks;
      hang_.group = claim.group;
      std::string who = claim.ranks.empty() ? "some ranks" : ranks_text(claim.ranks);
      hang_.headline = fmt::format("{} {} in communicator {}", who, claim.text, title(claim.group));
      hang_.reason =
          "either these ranks are stuck before their next collective, or the job was running when "
          "asked";
      hang_.advice = fmt::format(
          "ask RAS again: if the numbers stay, look at {} (py-spy dump, log, dmesg)", who);
      return true;
    }
    return false;
  }

  // Culprits that did enter, but long after the others.
  void add_lateness() {
    if (hang_.kind != Hang::Kind::kMissing || hang_.sequence < 0) return;
    int64_t first = 0;
    for (const auto& [rank, record] : progress_.ranks) {
      const Call* call = find_call(progress_, rank, hang_.group, hang_.sequence);
      if (call == nullptr || call->created_ns == 0) continue;
      if (first == 0 || call->created_ns < first) first = call->created_ns;
    }
    for (int rank : hang_.culprits) {
      const Call* call = find_call(progress_, rank, hang_.group, hang_.sequence);
      if (first == 0 || call == nullptr || call->created_ns - first < 1'000'000'000) continue;
      hang_.evidence.insert(hang_.evidence.begin(),
                            fmt::format("rank {} entered it {} after the first rank", rank,
                                        seconds(call->created_ns - first)));
    }
  }

  // The log's own words, each statement once: ranks repeat each other, and exceptions repeat the
  // log.
  void add_claims() {
    std::set<std::string> said;
    for (const Claim& claim : progress_.claims) {
      if (claim.kind == Claim::Kind::kBehind) continue;
      const std::string& text = claim.line.empty() ? claim.text : claim.line;
      std::string_view message = text;
      if (size_t prefix = message.rfind(']'); prefix != std::string_view::npos)
        message.remove_prefix(prefix + 1);
      std::string gist = claim.kind == Claim::Kind::kNote ? "" : rank_list(claim.ranks);
      for (char c : message) {
        bool keep =
            claim.kind == Claim::Kind::kNote && std::isalpha(static_cast<unsigned char>(c)) != 0;
        if (keep && gist.size() < 40) gist += c;
      }
      if (!text.empty() && said.insert(gist).second) hang_.evidence.push_back(text);
    }
  }

  Progress progress_;
  Hang hang_;
};

}  // namespace

Hang find_hang(Progress progress) {
  unify_groups(progress);
  return Judge(std::move(progress)).judge();
}

}  // namespace monograph::diagnose
