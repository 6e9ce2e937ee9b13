#include "train/step_records.h"

namespace monograph::train {

StepRecords::StepRecords(EventLog& events, const std::string& tensorboard_folder,
                         const std::string& timeline_path, int64_t rank)
    : events_(events) {
  if (!tensorboard_folder.empty()) tensorboard_ = TensorBoardWriter(tensorboard_folder);
  if (timeline_path.empty()) return;
  timeline_ = std::make_unique<StepTimeline>(timeline_path, rank, events);
}

void StepRecords::add(const Step& step, const session::Results& results,
                      const session::Executable& executable) {
  const int64_t number = step.number + 1;
  if (timeline_) timeline_->add_step(step.number, step.of, step.begin, executable);
  for (size_t i = 0; i < results.names.size(); ++i) {
    tensorboard_.scalar("train/" + results.names[i], number, results.values[i].get(0));
  }
  tensorboard_.scalar("train/tokens_per_second", number, step.tokens_per_s);
  if (!events_.is_on(EventLevel::kInfo, EventCategory::kRun)) return;
  events_.write(EventLevel::kInfo, EventCategory::kRun, "step",
                {{"step", number},
                 {"loss", results.loss()},
                 {"ns", step.ns},
                 {"tokens_per_s", step.tokens_per_s},
                 {"exposed_ns", exposed_ns(executable)}});
}

void StepRecords::add_validation(int64_t num_steps, double loss) {
  tensorboard_.scalar("validation/loss", num_steps, loss);
  events_.write(EventLevel::kInfo, EventCategory::kRun, "validation",
                {{"step", num_steps}, {"loss", loss}});
}

void StepRecords::finish() {
  if (timeline_) timeline_->write();
}

int64_t exposed_ns(const session::Executable& executable) {
  const session::Build* const build = executable.build();
  if (build == nullptr) return 0;
  const std::vector<runtime::StepTime> times = executable.step_times();
  const std::vector<ir::Step>& steps = build->compilation.program.steps;
  int64_t total = 0;
  for (size_t i = 0; i < std::min(times.size(), steps.size()); ++i) {
    if (!std::holds_alternative<ir::WaitStep>(steps[i].work)) continue;
    total += std::chrono::nanoseconds(times[i].end - times[i].begin).count();
  }
  return total;
}

}  // namespace monograph::train
