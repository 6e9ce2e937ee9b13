#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/event.h"
#include "frontend/session/executable.h"
#include "frontend/session/session.h"
#include "train/step_timeline.h"
#include "train/tensorboard.h"

namespace monograph::train {

// What a run tells of each step: events, TensorBoard's scalars, a timeline.
class StepRecords {
 public:
  // Empty paths: not told so. UserError when a file cannot be made.
  StepRecords(EventLog& events, const std::string& tensorboard_folder,
              const std::string& timeline_path, int64_t rank);

  // A training step that has just ended, of so many, from 0.
  struct Step {
    int64_t number = 0, of = 0;
    std::chrono::steady_clock::time_point begin;
    int64_t ns = 0;
    double tokens_per_s = 0;
  };
  void add(const Step& step, const session::Results& results,
           const session::Executable& executable);
  void add_validation(int64_t num_steps, double loss);
  void finish();  // writes the timeline

 private:
  EventLog& events_;
  TensorBoardWriter tensorboard_;
  std::unique_ptr<StepTimeline> timeline_;
};

// How long the computation stood still for exchanges in the last run; 0 where nothing is measured.
int64_t exposed_ns(const session::Executable& executable);

}  // namespace monograph::train
