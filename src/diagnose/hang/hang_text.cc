#include "diagnose/hang/hang_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "diagnose/hang/failure.h"
#include "diagnose/hang/hang_line.h"
#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

constexpr size_t kMaxFingerprints = 5000;  // of a rank: the last ones tell
constexpr size_t kMaxLine = 400;           // evidence beyond this is cut
constexpr size_t kMaxFailures = 10'000;    // ranks
constexpr int kLifeSigns = 40;             // lines that an exception's own message does not have

std::string shorten(std::string_view line) {
  line = trim(line);
  return line.size() <= kMaxLine ? std::string(line)
                                 : std::string(line.substr(0, kMaxLine)) + " ...";
}

}  // namespace

class HangText::Impl {
 public:
  void read(std::string_view text, int rank) {
    see(rank);
    read_traceback(text, rank);
    if (has(text, "Watchdog caught collective operation timeout")) return on_watchdog(text, rank);
    if (read_stack(text, rank)) return;
    if (has(text, "ast enqueued")) return on_status(text, rank);
    if (has(text, "CollectiveFingerPrint(")) return on_fingerprint(text, rank);
    if (has(text, "monitoredBarrier")) return on_barrier(text, rank);
    if (has(text, "collective #") || has(text, "lagging ranks") || is_snapshot(text))
      return on_desync(text);
    snapshot_sequence_ = -1;
    if (has(text, "watchdog got stuck") || has(text, "Heartbeat monitor timed out"))
      return on_stuck_watchdog(text, rank);
    if (auto cause = after(text, "watchdog thread terminated with exception: "))
      return on_watchdog_exception(*cause, text, rank);
    if (has(text, "Timed out waiting") && has(text, "ms for")) return on_gloo_timeout(text, rank);
    if (has(text, "Connection closed by peer") && has(text, "gloo"))
      return on_gloo_timeout(text, rank);
    read_torchrun(text);
  }

  void see(int rank) {
    if (!failures_.empty()) outlive_failure(rank);
    if (rank == last_seen_ || !is_valid(rank)) return;
    progress_.ranks_seen.insert(rank);
    last_seen_ = rank;
  }

  Progress finish() {
    for (auto& [rank, calls] : unplaced_) {
      for (Call& call : calls) add_call(rank, default_group(), std::move(call));
    }
    if (!is_multi_group_) add_calls(fingerprints_);
    // What a rank says of another is read from the other's message, and comes out as call 0 of a
    // random operation where the messages differ in length: its own words are better.
    for (const auto& [rank, calls] : stated_) told_.erase(rank);
    for (auto& [rank, calls] : told_) {
      if (has_later_call(stated_)) calls.erase(0);
    }
    add_calls(stated_);
    add_calls(told_);
    add_gloo_waits();
    for (auto& [rank, frames] : failed_in_) {
      auto record = progress_.ranks.find(rank);
      if (record == progress_.ranks.end() || record->second.calls.empty()) continue;
      std::vector<Call>& calls = record->second.calls;
      auto failed =
          std::find_if(calls.begin(), calls.end(), [](const Call& call) { return call.timed_out; });
      const StackFrame* frame = user_frame(frames);
      if (frame != nullptr) {
        (failed == calls.end() ? calls.back() : *failed).caller =
            std::make_shared<const StackFrame>(*frame);
      }
    }
    for (auto& [rank, last] : failures_) progress_.failures.push_back(std::move(last.failure));
    return std::move(progress_);
  }

 private:
  std::string group_named(std::string_view name, std::string_view description) {
    std::string key = group_key(name, {});
    Group& group = progress_.groups[key];
    group.name = name;
    if (!description.empty()) group.description = description;
    if (name == "0" && group.description.empty()) group.description = "default_pg";
    return key;
  }

  std::string default_group() { return group_named("0", "default_pg"); }

  void add_call(int rank, const std::string& group, Call call) {
    call.group = group;
    progress_.ranks_seen.insert(rank);
    std::vector<Call>& calls = progress_.ranks[rank].calls;
    for (const Call& known : calls) {
      if (known.group == call.group && known.sequence == call.sequence && known.op == call.op)
        return;
    }
    calls.push_back(std::move(call));
  }

  void note(std::string_view text) { claim(Claim::Kind::kNote, {}, "", text); }

  void claim(Claim::Kind kind, std::vector<int> ranks, std::string sentence,
             std::string_view line) {
    if (progress_.claims.size() >= 1000) return;  // a log may repeat itself for days
    progress_.claims.push_back(
        {kind, default_group(), std::move(ranks), std::move(sentence), shorten(line)});
  }

  void on_watchdog(std::string_view text, int rank) {
    std::optional<std::string_view> work = after(text, "WorkNCCL(");
    WatchdogPrefix prefix = read_watchdog_prefix(text);
    int who = rank >= 0 ? rank : prefix.rank.value_or(-1);
    if (!work || who < 0) return;
    Call call;
    call.sequence = leading_integer(field(*work, "SeqNum=")).value_or(-1);
    call.op = plain_op(field(*work, "OpType="));
    auto count = [&](std::string_view name) {
      std::string_view digits = trim(field(*work, name));
      return leading_integer(digits).value_or(-1);  // 2^64-1, of a batch, does not fit
    };
    call.num_elements_in = count("NumelIn=");
    call.num_elements_out = count("NumelOut=");
    call.shape_in = trim(field(*work, "TensorShape="));
    if (call.num_elements_in < 0) call.num_elements_in = count_elements(call.shape_in);
    call.timeout_ms = count("Timeout(ms)=");
    call.ran_ms = integer_after(text, "ran for ").value_or(-1);
    call.pending = call.timed_out = true;
    if (!prefix.group.empty()) {
      add_call(who, group_named(prefix.group, prefix.description), std::move(call));
    } else {
      unplaced_[who].push_back(std::move(call));
    }
    if (watchdog_ranks_.insert(who).second && watchdog_ranks_.size() <= 2) note(text);
  }

  // "... at work: 1580, last enqueued NCCL work: 1582, last completed NCCL work: 1579."
  void on_status(std::string_view text, int rank) {
    WatchdogPrefix prefix = read_watchdog_prefix(text);
    int who = rank >= 0 ? rank : prefix.rank.value_or(-1);
    if (has(text, "dump signal due to a collective timeout from")) note(text);
    std::string_view status = text.substr(text.find("ast enqueued"));
    std::optional<int64_t> enqueued = integer_after(status, "work: ");
    std::optional<std::string_view> completed_part = after(status, "last completed");
    if (who < 0 || !enqueued || !completed_part) return;
    std::optional<int64_t> completed = integer_after(*completed_part, "work: ");
    if (!completed) return;
    std::string group = group_named(prefix.group.empty() ? "0" : prefix.group, prefix.description);
    GroupStatus& known = progress_.ranks[who].groups[group];
    known.enqueued = std::max(known.enqueued, *enqueued);
    known.completed = std::max(known.completed, *completed);
    if (auto started = after(status, "last started")) {
      known.started = integer_after(*started, "work: ").value_or(known.started);
    }
    std::string_view head = text.substr(0, text.find("ast enqueued"));
    std::optional<int64_t> at = integer_after(head, "work sequence id: ");
    if (!at) at = integer_after(head, "work: ");
    place_watchdog_calls(who, group, at);
  }

  // The time-out line names the work but not its group; the status line that follows names both.
  void place_watchdog_calls(int rank, const std::string& group, std::optional<int64_t> sequence) {
    std::vector<Call>& calls = unplaced_[rank];
    for (auto call = calls.begin(); call != calls.end(); ++call) {
      if (sequence && call->sequence >= 0 && call->sequence != *sequence) continue;
      add_call(rank, group, std::move(*call));
      calls.erase(call);
      return;
    }
  }

  void on_fingerprint(std::string_view text, int rank) {
    if (auto mismatch = after(text, "Detected mismatch between collectives on ranks.")) {
      return on_mismatch(text, *mismatch);
    }
    WatchdogPrefix prefix = read_watchdog_prefix(text);
    if (prefix.rank && rank >= 0 && *prefix.rank != rank) is_multi_group_ = true;
    int who = rank >= 0 ? rank : prefix.rank.value_or(-1);
    if (who < 0) return;
    Call call;
    read_fingerprint(*after(text, "CollectiveFingerPrint("), call);
    call.created_ns = glog_time(text);
    if (has(text, "encountered error running collective")) {
      note(text);
      return;
    }
    if (!has(text, "Running collective") || call.sequence < 0) return;
    // Each group counts on its own, and the line does not say which group it is.
    std::map<int64_t, Call>& calls = fingerprints_[who];
    if (!calls.try_emplace(call.sequence, call).second) is_multi_group_ = true;
    if (calls.size() > kMaxFingerprints) calls.erase(calls.begin());
  }

  void on_mismatch(std::string_view line, std::string_view text) {
    std::vector<int> ranks;
    std::string_view rest = text;
    for (int side = 0; side < 2; ++side) {
      std::optional<std::string_view> found = after(rest, "Rank ");
      if (!found) break;
      std::optional<int> rank = valid_rank(leading_integer(*found));
      std::optional<std::string_view> print = after(*found, "CollectiveFingerPrint(");
      if (!rank || !print) break;
      Call call;
      read_fingerprint(before(*print, ", but Rank "), call);
      ranks.push_back(*rank);
      // A number is needed to put the two side by side; before 2.0 there was none.
      if (call.sequence < 0) call.sequence = 0;
      call.pending = true;
      (side == 0 ? stated_ : told_)[*rank].try_emplace(call.sequence, std::move(call));
      rest = *print;
    }
    if (ranks.size() == 2)
      claim(Claim::Kind::kMismatch, std::move(ranks), "called different collectives", line);
  }

  void on_barrier(std::string_view text, int rank) {
    size_t failed = text.find(" failed to pass monitoredBarrier");
    if (failed == std::string_view::npos) {
      if (has(text, "timed out in monitoredBarrier") || has(text, "reached monitoredBarrier"))
        note(text);
      return;
    }
    std::string_view head = text.substr(0, failed);
    size_t mark = head.rfind("Rank");
    if (mark == std::string_view::npos) return;
    head.remove_prefix(mark + 4);
    if (head.starts_with("s")) head.remove_prefix(1);
    std::vector<int> late = leading_ranks(trim(head));
    std::optional<int64_t> limit = integer_after(text, "monitoredBarrier in ");
    if (late.empty()) return;
    std::string sentence = limit ? fmt::format("did not reach the barrier within {} ms", *limit)
                                 : "did not reach the barrier in time";
    claim(Claim::Kind::kDidNotEnter, std::move(late), std::move(sentence), text);
    if (rank >= 0) progress_.ranks[rank];
  }

  // "Stack trace of the failed collective:" and, on lines of their own, "#0 all_reduce from
  // FILE:3068".
  bool read_stack(std::string_view text, int rank) {
    if (has(text, "Stack trace of the failed collective")) {
      stack_rank_ = rank >= 0 ? rank : read_watchdog_prefix(text).rank.value_or(-1);
      failed_in_[stack_rank_].clear();
      return true;
    }
    std::optional<std::string_view> from = after(text, " from ");
    if (stack_rank_ < 0 || !text.starts_with("#") || !from) {
      stack_rank_ = -1;
      return false;
    }
    std::string_view place = trim(*from);
    size_t colon = place.rfind(':');
    std::string_view function =
        before(text.substr(std::min(text.size(), text.find(' ') + 1)), " from ");
    std::vector<StackFrame>& frames = failed_in_[stack_rank_];
    if (colon == std::string_view::npos || frames.size() >= 256) return true;
    frames.push_back({std::string(function), std::string(place.substr(0, colon)),
                      leading_integer(place.substr(colon + 1)).value_or(0)});
    return true;
  }

  static bool is_snapshot(std::string_view text) {
    return has(text, "] started ") || has(text, "] finished ") || has(text, " started ranks:") ||
           has(text, " finished ranks:");
  }

  void on_desync(std::string_view text) {
    std::string_view line = trim(text);
    if (auto heading = after(line, "#");
        heading && (has(line, "started ranks:") || has(line, "finished ranks:"))) {
      snapshot_sequence_ = leading_integer(*heading).value_or(-1);
      return;
    }
    size_t open = line.rfind('[');
    if (open == std::string_view::npos) return;
    std::vector<int> ranks = leading_ranks(line.substr(open + 1));
    if (has(line, "are the lagging ranks")) {
      claim(Claim::Kind::kDidNotEnter, std::move(ranks), "never joined any collective", line);
    } else if (has(line, "but didn't join collective #")) {
      claim(Claim::Kind::kDidNotEnter, std::move(ranks), "did not join the collective", line);
    } else if (has(line, "joined but didn't finish collective #")) {
      note(line);
    } else if (snapshot_sequence_ > 0) {
      bool finished = has(line, "] finished ");
      std::optional<std::string_view> op = after(line, finished ? "] finished " : "] started ");
      if (!op) return;
      for (int rank : ranks) {
        Call call;
        call.op = plain_op(*op);
        call.sequence = snapshot_sequence_;
        call.state = finished ? CallState::kCompleted : CallState::kStarted;
        call.pending = !finished;
        add_call(rank, default_group(), std::move(call));
      }
    }
  }

  void on_stuck_watchdog(std::string_view text, int rank) {
    WatchdogPrefix prefix = read_watchdog_prefix(text);
    int who = rank >= 0 ? rank : prefix.rank.value_or(-1);
    if (who < 0) return;
    claim(Claim::Kind::kUnreachable, {who},
          "its watchdog thread is stuck: a CUDA or NCCL call hangs, or another thread holds the "
          "GIL in one",
          text);
  }

  void on_gloo_timeout(std::string_view text, int rank) {
    if (rank < 0) return;
    gloo_waiters_.insert(rank);
    if (gloo_waiters_.size() <= 2) note(text);
  }

  // The ranks whose transfer timed out waited for one that said nothing of the kind.
  void add_gloo_waits() {
    bool known = !progress_.ranks.empty() ||
                 std::any_of(progress_.claims.begin(), progress_.claims.end(),
                             [](const Claim& c) { return c.kind != Claim::Kind::kNote; });
    if (known || gloo_waiters_.empty()) return;
    for (int rank : gloo_waiters_) {
      Call call;
      call.op = "gloo transfer";
      call.sequence = 1;
      call.pending = call.timed_out = true;
      add_call(rank, default_group(), std::move(call));
    }
  }

  static bool has_later_call(const std::map<int, std::map<int64_t, Call>>& by_rank) {
    return std::any_of(by_rank.begin(), by_rank.end(),
                       [](const auto& entry) { return entry.second.rbegin()->first > 0; });
  }

  void add_calls(std::map<int, std::map<int64_t, Call>>& by_rank) {
    for (auto& [rank, calls] : by_rank) {
      for (auto& [sequence, call] : calls) add_call(rank, default_group(), std::move(call));
    }
  }

  // An exception that nothing caught ends its process; of a failed collective it also says where
  // the rank called it.
  void read_traceback(std::string_view text, int rank) {
    std::optional<Failure> failure = tracebacks_.read(text, is_valid(rank) ? rank : -1);
    if (!failure) return;
    const std::string& message = failure->message;
    const bool of_call =
        has(message, "ollective") || has(message, "onitoredBarrier") || has(message, "gloo");
    if (of_call && failure->rank >= 0) failed_in_[failure->rank] = failure->frames;
    if (failure->rank < 0) failure->rank = in_root_cause_ ? root_cause_rank_ : -1;
    on_failure(std::move(*failure));
  }

  // Of a chain the last ends the process; what follows from another rank's end tells less.
  void on_failure(Failure failure) {
    const int rank = failure.rank;
    const auto known = failures_.find(rank);
    const bool tells_less = known != failures_.end() && !is_consequence(known->second.failure) &&
                            (is_consequence(failure) || failure.frames.empty());
    if (tells_less || (known == failures_.end() && failures_.size() >= kMaxFailures)) return;
    failures_[rank] = {std::move(failure), 0};
  }

  // A process that goes on printing caught the exception.
  void outlive_failure(int rank) {
    const auto found = failures_.find(rank);
    if (found == failures_.end() || found->second.is_final) return;
    if (++found->second.num_lines > kLifeSigns) failures_.erase(found);
  }

  void on_watchdog_exception(std::string_view cause, std::string_view line, int rank) {
    const int who = rank >= 0 ? rank : read_watchdog_prefix(line).rank.value_or(-1);
    on_failure({who, "", shorten(before(cause, "Exception raised from")), {}});
  }

  // "Root Cause (first observed failure):" and below it "rank      : 2 (local_rank: 2)", "exitcode
  // : -9", "traceback : Signal 9 (SIGKILL) received by PID 13".
  void read_torchrun(std::string_view text) {
    if (has(text, "Root Cause (first observed failure)")) {
      in_root_cause_ = true;
      root_cause_rank_ = -1;
      return;
    }
    if (!in_root_cause_) return;
    std::string_view line = trim(text);
    if (line.starts_with("rank") && has(line, ":")) {
      root_cause_rank_ = valid_rank(integer_after(line, ":")).value_or(-1);
      progress_.first_failed_rank = root_cause_rank_;
    } else if (line.starts_with("exitcode") && root_cause_rank_ >= 0) {
      if (auto signal = fatal_signal(integer_after(line, ":").value_or(0))) {
        on_failure({root_cause_rank_, "", fmt::format("killed by {}", *signal), {}});
        failures_[root_cause_rank_].is_final = true;
      }
    } else if (line.starts_with("=====")) {
      in_root_cause_ = false;
    }
  }

  // Of an exit code. SIGABRT is the watchdog's own, SIGTERM torchrun's.
  static std::optional<std::string_view> fatal_signal(int64_t code) {
    switch (code) {
      case -4:
        return "SIGILL";
      case -7:
        return "SIGBUS";
      case -8:
        return "SIGFPE";
      case -9:
        return "SIGKILL";
      case -11:
        return "SIGSEGV";
      default:
        return std::nullopt;
    }
  }

  static bool is_valid(int rank) { return rank >= 0 && rank < kMaxRank; }

  Progress progress_;
  int last_seen_ = -1;
  std::map<int, std::vector<Call>> unplaced_;  // watchdog calls whose group is not known yet
  std::map<int, std::map<int64_t, Call>> fingerprints_;  // "Running collective"
  std::map<int, std::map<int64_t, Call>> stated_;  // from mismatch messages, by the rank itself
  std::map<int, std::map<int64_t, Call>> told_;    // from those of other ranks
  struct LastFailure {
    Failure failure;
    int num_lines = 0;      // that the rank printed since
    bool is_final = false;  // torchrun saw the process end
  };
  TracebackReader tracebacks_;
  std::map<int, LastFailure> failures_;  // by rank
  std::map<int, std::vector<StackFrame>> failed_in_;
  std::set<int> watchdog_ranks_;
  std::set<int> gloo_waiters_;
  bool is_multi_group_ = false;
  int64_t snapshot_sequence_ = -1;
  int stack_rank_ = -1;  // whose stack trace is being read
  bool in_root_cause_ = false;
  int root_cause_rank_ = -1;
};

HangText::HangText() : impl_(std::make_unique<Impl>()) {}
HangText::~HangText() = default;
void HangText::read(std::string_view text, int rank) {
  impl_->read(text, rank);
}
void HangText::see(int rank) {
  impl_->see(rank);
}
Progress HangText::finish() {
  return impl_->finish();
}

}  // namespace monograph::diagnose
