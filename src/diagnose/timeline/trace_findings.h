#pragma once

#include <vector>

#include "diagnose/finding.h"
#include "diagnose/timeline/collectives.h"
#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

// What costs time in one rank's trace: exposed communication, an idle device, collectives that do
// nothing, copies that block. Empty for a trace in which none of these passes its limit.
std::vector<Finding> find_in_trace(const Timeline& timeline);

// A rank for which the others wait again and again, and why it is late.
std::vector<Finding> find_stragglers(const Arrivals& arrivals, int64_t wall_ns);

}  // namespace monograph::diagnose
