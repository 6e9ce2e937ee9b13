#pragma once

#include <vector>

#include "diagnose/finding.h"
#include "diagnose/hang/progress.h"
#include "diagnose/nccl/nccl_log.h"

namespace monograph::diagnose {

// What is wrong or differs between ranks, each with the variable to set. Empty for a healthy job.
std::vector<Finding> check_nccl(const NcclLog& log);

// The collective trace as progress of the ranks, so that a mismatch or a rank behind shows as in
// any other hang evidence. Empty if the log has no such trace.
Progress nccl_progress(const NcclLog& log);

}  // namespace monograph::diagnose
