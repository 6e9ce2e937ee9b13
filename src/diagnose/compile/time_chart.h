#pragma once

#include "diagnose/compile/job.h"

namespace monograph::diagnose {

// Adds a drawing of when each rank compiled what.
void add_time_chart(const CompileJob& job, Section& section);

}  // namespace monograph::diagnose
