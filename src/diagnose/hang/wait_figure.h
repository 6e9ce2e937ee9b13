#pragma once

#include "diagnose/finding.h"
#include "diagnose/hang/hang.h"

namespace monograph::diagnose {

// The wait-for graph with ranks that wait for the same ones drawn as one box; the culprits stand at
// the right.
Figure draw_waits(const Hang& hang);

}  // namespace monograph::diagnose
