#pragma once

#include <string>

#include "frontend/session/session.h"
#include "ops/collective/compression.h"
#include "train/models.h"

namespace monograph::cli {

// The step that verbs compile: forward, loss, backward and an update by AdamW with clipping
// (`epsilon` is its own), or of image models by SGD with momentum. `model` must outlive it.
struct StepShape {
  int64_t num_micro_batches = 1;
  int64_t num_ranks = 1;  // data parallel: gradients are means over so many
  ir::Mesh mesh = {};     // the same over its batch axes, instead
  ops::Compression compression = {};
  double epsilon = 1e-8;
  std::string moments = "f32";  // what AdamW's moments are kept in; or bf16
};
// UserError for moments in bf16 of an image model.
session::TracedFunction training_step(train::Model& model, const StepShape& shape);
// Of AdamW, where runs are compared: with 1e-8, the sign of a gradient that is zero but for
// rounding moves its parameter by a whole step.
inline constexpr double kForgivingEpsilon = 1e-3;

// What such a step is given where nobody has data: ids below 251, or images and their kinds.
std::vector<ir::Literal> step_inputs(const train::Model& model);
// Sizes that the oracles can do in seconds, where none are given.
void take_small_sizes(train::ModelConfig& config);

}  // namespace monograph::cli
