#pragma once

#include <memory>

#include "cli/model_options.h"
#include "cli/training_step.h"
#include "runtime/mesh_context.h"
#include "train/models.h"

namespace monograph::cli {

// A model as one rank of a mesh has it, for verbs that compile without running.
struct PlannedModel {
  std::unique_ptr<train::Model> model;
  // The rank, where it matters which one: of a stage of a pipeline; else null.
  std::shared_ptr<const runtime::MeshContext> rank;
};

// Divides the model over the mesh of `options`, with its part of the batch, and sets it in `shape`.
// UserError for a mesh that the model cannot be on, or a stage that there is none of.
PlannedModel plan_model(train::ModelConfig config, const MeshOptions& options,
                        const session::CompileOptions& compile, StepShape& shape);

}  // namespace monograph::cli
