#pragma once

#include <string_view>
#include <vector>

#include "frontend/nn/module.h"
#include "ir/mesh.h"

namespace monograph::nn {

// What the ranks of the axis keep from a forward to a backward pass.
enum class ShardStrategy {
  kFullShard,    // parts of parameters, gradients and moments; elements of lists are gathered twice
                 // a step, other units once: the backward pass begins with the head
  kShardGradOp,  // the same, but a unit that was gathered stays until its gradient is made
  kHybrid,       // full shard over this axis; another axis has copies of the parts
};
ShardStrategy parse_shard_strategy(std::string_view name);  // "full-shard"; UserError names them

struct FullyShardOptions {
  std::string axis = "fsdp";
  ShardStrategy strategy = ShardStrategy::kFullShard;
  std::string replicate_axis = "dp";  // of kHybrid
};

// Fully sharded data parallel training (Rajbhandari et al., "ZeRO", 2020): each rank of the axis
// keeps its part of every parameter, gradient and moment. One line on a model that knows nothing of
// it, before a session compiles it:
//
//   nn::fully_shard(model, mesh);
//   ... optimizer.step(nn::replicate(loss.backward(), mesh, "fsdp"));
//
// Units that are gathered together: the matrices of each element of a list of modules ("h.0",
// "layers.3"), those of each other module ("wte", "lm_head"), and "vectors", all parameters with
// fewer than two axes: those of norms and biases, which kernels read as f32 while products may read
// matrices as bf16. Frozen parameters stay whole. Names and shapes of states, for a session and
// in checkpoints, stay those of the model. UserError for a mesh without the axis, a model that is
// sharded already, or a hybrid without the other axis.
void fully_shard(Module& model, const ir::Mesh& mesh, const FullyShardOptions& options = {});

// "h.0" for "h.0.attn.c_attn.weight"; "wte" for "wte.weight"; "vectors" for fewer than two axes.
std::string unit_of(const Parameter& parameter);

}  // namespace monograph::nn
