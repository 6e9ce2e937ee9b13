#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnose/hang/progress.h"

namespace monograph::diagnose {

// Ranks that gave the same number of a group's collectives to different calls.
struct Mismatch {
  enum class Aspect { kOp, kSize, kDtype, kCallSite } aspect = Aspect::kOp;
  struct Side {
    std::vector<int> ranks;
    std::string what;  // "all_reduce [1024] Float"
    const Call* call = nullptr;
  };
  std::string group;
  int64_t sequence = -1;
  std::vector<Side> sides;  // the largest first
  // The ranks outside the largest side, or everybody where no side is larger.
  std::vector<int> culprits;
  bool pending = false;  // one of the calls has not finished
};

// The first difference of each group: later ones only follow from it. Sizes count only for
// operations whose sizes must agree; a differing call site counts only if the rank stays different
// to the end of the record, which is what a skipped call looks like.
std::vector<Mismatch> find_mismatches(const Progress& progress);

}  // namespace monograph::diagnose
