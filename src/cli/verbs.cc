#include "cli/verbs.h"

#include <vector>

namespace monograph::cli {

std::span<const Verb> verbs() {
  static const std::vector<Verb> kVerbs = {
      {"train", "train a model on text or tokens", run_train},
      {"compile", "compile a model's training step and say what came out", run_compile},
      {"compress-sweep", "train with compressed gradients in several ways, and compare",
       run_compress_sweep},
      {"validate", "check a model's training step: gradients, kernels, repeatability",
       run_validate},
      {"explain", "say what a step became, and why: kernels, fusion, memory, a drawing",
       run_explain},
      {"bisect", "find the pass and node that make a step wrong, or slow", run_bisect},
      {"cache", "list, check or clean the cache of compiled kernels", run_cache},
      {"run", "start the ranks of a job, and say which one failed and why", run_run},
      {"doctor", "say what is wrong with this host for a distributed job", run_doctor},
      {"logs", "explain logs of a job: breaks, recompiles, ranks that differ, hangs", run_logs},
      {"trace", "explain profiler traces: overlap, idle time, stragglers, copies", run_trace},
  };
  return kVerbs;
}

}  // namespace monograph::cli
