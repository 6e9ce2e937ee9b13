#include "diagnose/nccl/nccl_checks.h"

#include "diagnose/nccl/nccl_checker.h"

namespace monograph::diagnose {

std::vector<Finding> check_nccl(const NcclLog& log) {
  std::vector<Finding> findings;
  check_nccl_setup(log, findings);
  check_nccl_transport(log, findings);
  return findings;
}

}  // namespace monograph::diagnose
