#include "diagnose/hang/hang.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "diagnose/hang/hang_words.h"
#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

constexpr size_t kMaxEvidence = 12;

std::string seconds(int64_t ns) {
  return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9);
}

class Judge {
 public:
  explicit Judge(const Progress& progress) : progress_(progress) {
    hang_.mismatches = find_mismatches(progress_);
    hang_.edges = wait_edges(progress_);
  }

  Hang judge() {
    if (has_trouble() && (by_mismatch() || by_failure(false) || by_claim() || by_waiting() ||
                          by_stall() || by_counts() || by_failure(true))) {
      add_lateness();
      add_claims();
      if (hang_.evidence.size() > kMaxEvidence) hang_.evidence.resize(kMaxEvidence);
    }
    return std::move(hang_);
  }

 private:
  // A log of a healthy job also ends with some ranks one call ahead of others.
  bool has_trouble() const {
    if (!progress_.failures.empty()) return true;
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
    describe_mismatch(progress_, *worst, hang_);
    describe_waits(progress_, hang_);
    return true;
  }

  // The exception that ended the rank which torchrun saw first, else the one of most ranks.
  // `also_consequences`: where nothing better is known, one that only says that a peer is gone.
  bool by_failure(bool also_consequences) {
    std::map<std::string, std::vector<const Failure*>> alike;
    for (const Failure& failure : progress_.failures) {
      const bool counts = !is_of_compiler(failure) && is_consequence(failure) == also_consequences;
      if (counts) alike[title(failure)].push_back(&failure);
    }
    const std::vector<const Failure*>* cause = nullptr;
    for (const auto& [words, failures] : alike) {
      const bool is_first = std::any_of(failures.begin(), failures.end(), [&](const Failure* one) {
        return one->rank >= 0 && one->rank == progress_.first_failed_rank;
      });
      if (is_first) {
        cause = &failures;
        break;
      }
      if (cause == nullptr || failures.size() > cause->size()) cause = &failures;
    }
    if (cause == nullptr) return false;
    hang_.kind = also_consequences ? Hang::Kind::kLostPeer : Hang::Kind::kFailed;
    for (const Failure* one : *cause) {
      if (one->rank >= 0) hang_.culprits.push_back(one->rank);
    }
    std::sort(hang_.culprits.begin(), hang_.culprits.end());
    const Call* awaited = hang_.edges.empty() ? nullptr : awaited_call();
    if (awaited != nullptr) {
      hang_.group = awaited->group;
      hang_.op = awaited->op;
      hang_.sequence = awaited->sequence;
    }
    describe_failure(*cause->front(), hang_);
    for (const auto& [words, failures] : alike) {
      if (&failures == cause) continue;
      const int rank = failures[0]->rank;
      const std::string who = rank < 0 ? "a process" : ranks_text({rank});
      hang_.evidence.push_back(fmt::format("{} failed too: {}", who, words));
    }
    describe_waits(progress_, hang_);
    return true;
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
    bool is_stuck_watchdog = has(first->text, "watchdog");
    std::string who = late.empty() ? "a process" : ranks_text(hang_.culprits);
    if (awaited != nullptr) hang_.place = frame_of(*awaited);
    if (unreachable) {
      // "what: why"
      hang_.headline = fmt::format("{}: {}", who, before(first->text, ": "));
      hang_.reason = after(first->text, ": ")
                         .value_or("the process is stopped, dead or cut off from the network");
    } else {
      hang_.headline =
          fmt::format("{} did not enter {} in time", ranks_text(hang_.culprits),
                      awaited == nullptr
                          ? "the collective"
                          : call_title(progress_, awaited->op, awaited->group, awaited->sequence));
      hang_.reason = "desync: the other ranks waited in it until the time limit";
    }
    hang_.advice = fmt::format(
        "look at what {} did then: log, stack (py-spy dump{}), dmesg and the machine's health; if "
        "it was only slow (loading data, saving, compiling), raise the timeout{}",
        who, is_stuck_watchdog ? " --native" : "",
        is_stuck_watchdog ? " (TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC)" : "");
    describe_waits(progress_, hang_);
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
      describe_cycle(progress_, hang_);
    } else {
      describe_missing(progress_, wait, hang_);
    }
    describe_waits(progress_, hang_);
    if (!hang_.is_certain) {
      hang_.reason += "; but this is one look, and the job may have been running";
      hang_.advice = "ask RAS again; if the numbers stay, " + hang_.advice;
    }
    return true;
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
                                 call_title(progress_, call.op, call.group, call.sequence));
    bool all_receive =
        call.op == "recv" && std::all_of(widest->begin(), widest->end(),
                                         [](const Call* one) { return one->op == "recv"; });
    if (all_receive && ranks.size() > 1) {
      hang_.kind = Hang::Kind::kCycle;
      hang_.culprits = ranks;
      hang_.headline = fmt::format("{} all receive ({}) and none sends", ranks_text(ranks),
                                   call_title(progress_, call.op, call.group, call.sequence));
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
      hang_.evidence.push_back(
          fmt::format("{} unfinished on {} rank{}",
                      call_title(progress_, calls.front()->op, key.first, key.second), calls.size(),
                      calls.size() == 1 ? "" : "s"));
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
      hang_.headline = fmt::format("{} {} in communicator {}", who, claim.text,
                                   group_title(progress_, claim.group));
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

  const Progress& progress_;
  Hang hang_;
};

}  // namespace

Hang find_hang(const Progress& progress) {
  return Judge(progress).judge();
}

}  // namespace monograph::diagnose
