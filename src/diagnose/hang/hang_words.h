#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnose/hang/hang.h"

// The sentences of a Hang.
namespace monograph::diagnose {

// "rank 3", "ranks 0-3, 7"
std::string ranks_text(const std::vector<int>& ranks);

// "all_reduce #5 of the default group"
std::string call_title(const Progress& progress, const std::string& op, const std::string& group,
                       int64_t sequence);

// "step (/job/train.py:14)", where the user called it; empty if the call has no frames.
std::string site(const Call& call);
StackFrame frame_of(const Call& call);

// nullptr if the rank recorded none.
const Call* find_call(const Progress& progress, int rank, const std::string& group,
                      int64_t sequence);

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
SharedWait main_wait(const std::vector<WaitEdge>& edges, const std::vector<int>& culprits);

// Each fills headline, place, reason, advice and evidence of a Hang whose culprits and call are
// set.
void describe_mismatch(const Progress& progress, const Mismatch& mismatch, Hang& hang);
void describe_missing(const Progress& progress, const SharedWait& wait, Hang& hang);
void describe_failure(const Failure& failure, Hang& hang);
void describe_cycle(const Progress& progress, Hang& hang);

// Adds one line of evidence for each call that somebody waits in.
void describe_waits(const Progress& progress, Hang& hang);

}  // namespace monograph::diagnose
