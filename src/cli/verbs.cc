#include "cli/verbs.h"

#include <vector>

namespace monograph::cli {

std::span<const Verb> verbs() {
  static const std::vector<Verb> kVerbs = {
      {"train", "train a model on text or tokens", run_train},
      {"compile", "compile a model's training step and say what came out", run_compile},
      {"logs", "explain logs of a job: breaks, recompiles, ranks that differ, hangs", run_logs},
      {"trace", "explain profiler traces: overlap, idle time, stragglers, copies", run_trace},
  };
  return kVerbs;
}

}  // namespace monograph::cli
