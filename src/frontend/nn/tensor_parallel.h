#pragma once

#include <string>
#include <vector>

#include "frontend/nn/gpt.h"
#include "frontend/nn/llama.h"
#include "frontend/nn/module.h"
#include "ir/mesh.h"

namespace monograph::nn {

// Of which dim of a parameter each rank has a part. `path`: the parameter's name, with * for any
// one component: "h.*.mlp.c_fc.weight".
struct TensorParallelRule {
  std::string path;
  int dim = 0;
  int64_t blocks = 1;  // tensors side by side in that dim, of each of which a rank has a part
};

struct TensorParallelOptions {
  std::string axis = "tp";
  // Sums go into parts of the sequence, and norms, residuals and dropout are done in parts.
  bool is_sequence_parallel = false;
};

// Tensor parallel training (Shoeybi et al., "Megatron-LM", 2019): ranks of the axis work together
// on the same part of the batch, each with its part of the large matrices. One line on a model that
// knows nothing of it, before fully_shard and before a session compiles it:
//
//   nn::tensor_parallel(model, mesh);
//
// By heads for attention, by columns and then rows for the layers between, by rows of the
// vocabulary for the embedding and its tied or untied head, and so for the loss. Collectives follow
// from the parameters' placements; remarks say why each is there. UserError for a mesh without the
// axis, heads or dims that the axis does not divide, or a rule that names no parameter.
void tensor_parallel(GPT& model, const ir::Mesh& mesh, const TensorParallelOptions& options = {});
void tensor_parallel(Llama& model, const ir::Mesh& mesh, const TensorParallelOptions& options = {});
// By rules of one's own.
void tensor_parallel(Module& model, const ir::Mesh& mesh,
                     const std::vector<TensorParallelRule>& rules,
                     const TensorParallelOptions& options = {});

}  // namespace monograph::nn
