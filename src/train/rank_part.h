#pragma once

#include "frontend/nn/fully_shard.h"
#include "frontend/nn/pipeline.h"
#include "frontend/nn/tensor_parallel.h"
#include "ir/mesh.h"
#include "train/trainer.h"

namespace monograph::train {

// Of one rank where there is none.
ir::Mesh mesh_of(const TrainConfig& config);

// Rows of a batch of all ranks.
int64_t whole_batch(const TrainConfig& config);

// Over the mesh's axes tp, pp and fsdp, in this order; `is_on_gpu`: what the step runs on. True
// when ranks have parts or stages of it. UserError for a pipeline on a GPU, or with axis fsdp.
struct ModelDivision {
  nn::TensorParallelOptions tensor_parallel;
  nn::PipelineOptions pipeline;
  nn::FullyShardOptions fully_shard;
};
bool divide_model(Model& model, const ir::Mesh& mesh, const ModelDivision& division,
                  bool is_on_gpu);

// The model as one rank has it: with its part of the batch. Parts are of one size, so that all
// ranks have one graph: where rows are missing, empty ones fill the last parts up. UserError for
// fewer rows than ranks.
ModelConfig part_of_rank(const TrainConfig& config);

}  // namespace monograph::train
