#pragma once

#include <string>
#include <vector>

#include "compiler/pass_runner.h"
#include "verify/divergence.h"

namespace monograph::verify {

// A step and what it runs on, to be searched for what makes it wrong.
struct Suspect {
  const ir::Graph* traced = nullptr;
  std::map<std::string, ir::Literal> inputs = {}, states = {};
  compiler::PassOptions options = {};
  std::span<const compiler::PipelineStep> steps = compiler::pipeline();
};

struct Bisection {
  enum class Fault : uint8_t {
    kNone,
    kPass,    // a pass changes what the graph computes
    kKernel,  // a kernel or library call does not compute its node
    kPlan     // each step is right alone, together they are not: layout, memory or order
  };
  Fault fault = Fault::kNone;
  std::string symptom;  // "loss is 0.31 off, allowed is 0.001"
  std::string pass;     // the first after which the step is wrong; empty for kKernel
  int application = 0;  // its place in the pipeline
  std::string node, scope, file;
  int line = 0;
  std::string kernel;  // of kKernel: its source's path; empty for a library call
  int num_runs = 0;    // graphs that were run to find out
};

// Compares the step with the interpreter on the traced graph, outputs and updated states: first the
// interpreter on the graph after all passes (binary search over passes), then each compiled step
// alone, then the compiled step as a whole. `make_kernels` gives compiled kernels.
Bisection bisect(const Suspect& suspect, const KernelMaker& make_kernels);

// How long a step takes without each pass that may be left out.
struct PassTiming {
  std::string pass;
  double without_ms = 0;  // a step, the median
  bool makes_slower = false;
};
struct SlowStep {
  std::string name;
  double ms = 0, least_ms = 0;  // measured; bytes that must move over the copy bandwidth
};
struct SlownessReport {
  double step_ms = 0;
  std::vector<PassTiming> passes;  // the one that costs most first
  std::vector<SlowStep> steps;     // furthest from what is possible first
};
// Runs `num_steps` of each. A pass makes the step slower when it takes more than `margin` (a share)
// less without it. Memory-bound kernels only are compared with what is possible.
SlownessReport find_slowness(const Suspect& suspect, const KernelMaker& make_kernels, int num_steps,
                             double margin, double copy_bandwidth);

}  // namespace monograph::verify
