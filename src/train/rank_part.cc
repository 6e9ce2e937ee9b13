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
