#pragma once

#include <map>
#include <memory>
#include <string>

#include "ir/placement.h"
#include "passes/pass.h"

namespace monograph::passes {

struct TensorShards {
  std::string axis;
  int64_t size = 1;
  std::map<std::string, ir::Placement> states;  // shards, by name; other states are replicated
  // Sums over the ranks go into parts of dim 1 of activations [batch, length, width], where they
  // can, and what works on single positions is done in parts (Korthikanti et al., "Reducing
  // activation recomputation in large transformer models", 2022).
  bool is_sequence_parallel = false;
};

// Divides a step over the ranks of an axis, given how its states lie there (Shoeybi et al.,
// "Megatron-LM", 2019; propagated as in Xu et al., "GSPMD", 2021). Each op's rule says how it works
// on parts; where operands lie otherwise, collectives are inserted, and remarks say why. What has
// no rule works on whole values.
//   before: w = state "c_fc.weight" : f32[C,H]; v = state "c_proj.weight" : f32[H,C]
//           y = matmul(gelu(matmul(x, w)), v)
//   after:  w : f32[C,H/2]; v : f32[H/2,C]
//           y = all_reduce(matmul(gelu(matmul(x, w)), v))
// Keeps: numbers, but for the order of sums.
std::unique_ptr<ir::Graph> shard_tensors(std::unique_ptr<ir::Graph> graph,
                                         const TensorShards& shards, PassContext& context);

}  // namespace monograph::passes
