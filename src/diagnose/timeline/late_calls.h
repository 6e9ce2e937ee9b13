#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

// A collective that began or ended much later in one step than the same one does in the others.
struct LateCall {
  enum class Why : uint8_t {
    kHost,    // the host launched it later
    kKernel,  // the kernels before it took longer
    kStream,  // the collective before it on its stream took longer
    kPeers,   // it began on time and took longer: other ranks came late
    kOther,   // the trace does not show why
  } why = Why::kOther;
  std::string step;
  std::string op;
  std::string group;
  int64_t num_elements = -1;
  int64_t late_ns = 0;   // start, or for kPeers duration, beyond the median over the steps
  int64_t cause_ns = 0;  // of that, what the reason accounts for
  std::string kernel;    // of kKernel, the one that grew most
};

// Compares each collective with the one at its place in the other steps; needs three steps. A call
// is late by 10 % of the median step or more, the latest first. Of calls late for one reason in one
// step only the first is given: the others follow from it.
std::vector<LateCall> late_calls(const Timeline& timeline);

}  // namespace monograph::diagnose
