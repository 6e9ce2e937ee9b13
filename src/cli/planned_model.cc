#include "cli/planned_model.h"

#include "base/error.h"
#include "train/rank_part.h"

namespace monograph::cli {
namespace {

train::ModelConfig part_of_rank(train::ModelConfig config, const ir::Mesh& mesh) {
  const int64_t parts = mesh.batch_part(0).second;
  if (parts == 1) return config;
  const int64_t batch = train::make_model(config)->config().batch;
  if (batch < parts) {
    throw_user_error("--batch {} on {} ranks: use one row a rank or more", batch, parts);
  }
  config.batch = (batch + parts - 1) / parts;
  return config;
}

int rank_of_stage(const ir::Mesh& mesh, int64_t stage) {
  const std::vector<int> ranks = mesh.ranks_of_stage(stage);
  if (!ranks.empty()) return ranks.front();
  throw_user_error("--stage {}: axis pp of {} has places 0 to {}", stage, mesh.str(),
                   mesh.has_stages() ? mesh.size(ir::kPipelineAxis) - 1 : 0);
}

}  // namespace

PlannedModel plan_model(train::ModelConfig config, const MeshOptions& options,
                        const session::CompileOptions& compile, StepShape& shape) {
  shape.mesh = options.mesh();
  PlannedModel planned{train::make_model(part_of_rank(std::move(config), shape.mesh)), nullptr};
  train::divide_model(*planned.model, shape.mesh,
                      {.tensor_parallel = {.is_sequence_parallel = options.is_sequence_parallel},
                       .pipeline = options.pipeline(shape.num_micro_batches),
                       .fully_shard = {.strategy = nn::parse_shard_strategy(options.strategy)}},
                      compile.backend == "cuda" || compile.target != "cpu");
  const int rank = rank_of_stage(shape.mesh, options.stage);
  if (shape.mesh.has_stages()) planned.rank = runtime::describe_mesh(shape.mesh, rank);
  return planned;
}

}  // namespace monograph::cli
