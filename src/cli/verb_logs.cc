#include "cli/diagnosis.h"
#include "cli/verbs.h"

namespace monograph::cli {

int run_logs(std::span<const std::string> args) {
  return run_diagnosis(
      "monograph logs",
      "what went wrong in a job, where, why and what to do, from its logs: TORCH_LOGS text, "
      "TORCH_TRACE logs, watchdog and NCCL messages, any number of ranks",
      args);
}

}  // namespace monograph::cli
