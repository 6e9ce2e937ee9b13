#include "train/rank_part.h"

#include "base/error.h"
#include "train/models.h"

namespace monograph::train {

ir::Mesh mesh_of(const TrainConfig& config) {
  return config.mesh == nullptr ? ir::Mesh() : config.mesh->mesh;
}

int64_t whole_batch(const TrainConfig& config) {
  return make_language_model(config.model)->config().batch;
}

bool divide_model(Model& model, const ir::Mesh& mesh, const ModelDivision& division,
                  bool is_on_gpu) {
  if (mesh.has_stages() && is_on_gpu) {
    throw_user_error("a pipeline on GPUs: axis pp runs on CPUs only, use --device cpu");
  }
  if (mesh.has("tp")) model.divide(mesh, division.tensor_parallel);
  if (mesh.has(ir::kPipelineAxis)) model.cut(mesh, division.pipeline);
  if (mesh.has("fsdp")) nn::fully_shard(model.module(), mesh, division.fully_shard);
  const auto has_several = [&](std::string_view axis) {
    return mesh.has(axis) && mesh.size(axis) > 1;
  };
  return has_several("tp") || has_several("fsdp") || mesh.has_stages();
}

ModelConfig part_of_rank(const TrainConfig& config) {
  ModelConfig model = config.model;
  const int64_t batch = whole_batch(config), ranks = mesh_of(config).batch_part(0).second;
  if (batch < ranks) {
    throw_user_error("--batch {} on {} ranks: use one row a rank or more", batch, ranks);
  }
  model.batch = (batch + ranks - 1) / ranks;
  return model;
}

}  // namespace monograph::train
