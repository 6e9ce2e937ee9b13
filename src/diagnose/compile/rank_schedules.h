#pragma once

#include <vector>

#include "diagnose/compile/job.h"
#include "diagnose/compile/rank_comparison.h"

namespace monograph::diagnose {

// The order in which each rank's compiled graphs launch collectives. `graphs_agree`: the graphs
// themselves do not differ, so a difference here is not told already.
void compare_schedules(const CompileJob& job, bool graphs_agree, Report& report);

// The order in which ranks ran their compiled graphs.
void compare_execution(const CompileJob& job, const std::vector<FunctionGraphs>& graphs,
                       Report& report);

}  // namespace monograph::diagnose
