#pragma once

#include <string>
#include <vector>

#include "diagnose/hang/mismatch.h"
#include "diagnose/hang/progress.h"
#include "diagnose/hang/wait_for.h"

namespace monograph::diagnose {

// The one answer from all hang evidence of a job.
struct Hang {
  enum class Kind {
    kNone,      // nothing is stuck
    kMissing,   // desync: the culprits never entered what the others wait in
    kMismatch,  // desync: the culprits called something else under the same number
    kCycle,     // the culprits wait for each other
    kStall,     // everybody entered the same call and it does not finish; nobody to blame by rank
    kFailed,    // the culprits ended with an exception or a signal
    kLostPeer,  // exceptions that say a peer is gone, and nothing says why
  } kind = Kind::kNone;
  // False where the evidence is one look at a job that may have been running.
  bool is_certain = true;
  std::vector<int> culprits;
  std::string group;  // key in Progress, of the call that the answer is about
  int64_t sequence = -1;
  std::string op;

  std::string headline;  // what happened and which rank: one sentence
  StackFrame place;      // where the culprits or the waiters stand; file may be empty
  std::string reason;
  std::string advice;
  std::vector<std::string> evidence;  // most telling first

  std::vector<WaitEdge> edges;
  std::vector<Mismatch> mismatches;
};

// Evidence merged from files that name groups differently goes through unify_groups() first.
Hang find_hang(const Progress& progress);

}  // namespace monograph::diagnose
