#pragma once

#include "diagnose/finding.h"
#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

// What the device did over the time of the trace: as text three rows of shares (computation,
// communication, exposed communication), as SVG one lane for each of the busiest streams with the
// steps marked.
Figure draw_timeline(const Timeline& timeline);

}  // namespace monograph::diagnose
