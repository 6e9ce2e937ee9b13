#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "compiler/build_program.h"
#include "passes/memory/layout.h"
#include "verify/bisect.h"

namespace monograph::verify {
namespace {

constexpr size_t kMostSteps = 8;

// A step compiled without some passes, with its times.
class Timed {
 public:
  Timed(const Suspect& suspect, const std::string& without, const KernelMaker& make_kernels)
      : graph_(suspect.traced->clone()) {
    compiler::PassOptions options = suspect.options;
    if (!without.empty()) options.disabled.push_back(without);
    passes::PassContext context;
    compiler::run_passes(*graph_, context, options, suspect.steps);
    passes::StateLayout where;
    const passes::Layout layout = passes::assign_layout(*graph_, where, context);
    program_ = compiler::build_program(*graph_, layout, ir::DeviceSpec());
    executor_ = std::make_unique<runtime::Executor>(program_, make_kernels(program_.kernels));
    for (const auto& input : program_.inputs) {
      executor_->set_input(input.name, suspect.inputs.at(input.name));
    }
    for (const auto& state : program_.states) {
      executor_->write_state(state.name, suspect.states.at(state.name));
    }
    executor_->run();  // once without a clock
  }

  double run_ms() {
    const auto start = std::chrono::steady_clock::now();
    executor_->run();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

  // Steps that generated code does, by how much time they take beyond what their bytes need.
  std::vector<SlowStep> slow_steps(int num_steps, double copy_bandwidth) {
    executor_->measure_steps(true);
    for (int i = 0; i < num_steps; ++i) executor_->run();
    std::vector<SlowStep> steps;
    const auto& times = executor_->step_times();
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const ir::Step& step = program_.steps[i];
      if (!std::holds_alternative<ir::KernelStep>(step.work) || times[i].num_runs == 0) continue;
      const double ns =
          static_cast<double>(times[i].total_ns) / static_cast<double>(times[i].num_runs);
      const double least = static_cast<double>(step.bytes_least) / copy_bandwidth * 1e3;
      steps.push_back({step.name, ns / 1e6, least});
    }
    std::sort(steps.begin(), steps.end(), [](const SlowStep& a, const SlowStep& b) {
      return a.ms - a.least_ms > b.ms - b.least_ms;
    });
    steps.resize(std::min(steps.size(), kMostSteps));
    return steps;
  }

 private:
  std::unique_ptr<ir::Graph> graph_;
  ir::Program program_;
  std::unique_ptr<runtime::Executor> executor_;
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

}  // namespace

// With and without in turns, so that a busy machine slows both.
SlownessReport find_slowness(const Suspect& suspect, const KernelMaker& make_kernels, int num_steps,
                             double margin, double copy_bandwidth) {
  SlownessReport report;
  Timed whole(suspect, "", make_kernels);
  std::set<std::string> names;
  for (const compiler::PipelineStep& step : suspect.steps) {
    if (!step.is_required) names.insert(std::string(step.name));
  }
  std::vector<double> all;
  for (const std::string& name : names) {
    Timed without(suspect, name, make_kernels);
    std::vector<double> with_ms, without_ms;
    for (int i = 0; i < num_steps; ++i) {
      with_ms.push_back(whole.run_ms());
      without_ms.push_back(without.run_ms());
    }
    all.insert(all.end(), with_ms.begin(), with_ms.end());
    PassTiming timing{name, median(without_ms)};
    timing.makes_slower = timing.without_ms < median(with_ms) * (1 - margin);
    report.passes.push_back(std::move(timing));
  }
  report.step_ms = all.empty() ? whole.run_ms() : median(all);
  std::sort(report.passes.begin(), report.passes.end(),
            [](const auto& a, const auto& b) { return a.without_ms < b.without_ms; });
  report.steps = whole.slow_steps(num_steps, copy_bandwidth);
  return report;
}

}  // namespace monograph::verify
