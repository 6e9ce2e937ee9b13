#pragma once

#include "ir/mesh.h"
#include "train/trainer.h"

namespace monograph::train {

// Of one rank where there is none.
ir::Mesh mesh_of(const TrainConfig& config);

// Rows of a batch of all ranks.
int64_t whole_batch(const TrainConfig& config);

// The model as one rank has it: with its part of the batch. Parts are of one size, so that all
// ranks have one graph: where rows are missing, empty ones fill the last parts up. UserError for
// fewer rows than ranks.
ModelConfig part_of_rank(const TrainConfig& config);

}  // namespace monograph::train
