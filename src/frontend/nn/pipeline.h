#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/nn/gpt.h"
#include "frontend/nn/llama.h"
#include "frontend/nn/module.h"
#include "ir/mesh.h"
#include "ir/pipeline.h"

namespace monograph::nn {

using PipelineSchedule = ir::Pipeline::Schedule;
PipelineSchedule parse_pipeline_schedule(std::string_view name);  // "zb-h1"; UserError names them

// Where a model is cut: into equal numbers of layers, or into parts of about equal work, with that
// of the embedding and the head (operations and bytes of one forward pass over a row of tokens).
enum class PipelineCut { kLayers, kCost };
PipelineCut parse_pipeline_cut(std::string_view name);  // "layers", "cost"; UserError names them

struct PipelineOptions {
  int64_t micro_batches = 1;  // of a step
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t chunks = 2;  // stages of a rank; kInterleaved only
  PipelineCut cut = PipelineCut::kLayers;
};

// Pipeline parallel training: each rank of axis "pp" has some of the layers, and micro-batches go
// from rank to rank. One line on a model that knows nothing of it, before a session compiles it:
//
//   nn::pipeline(model, mesh, {.micro_batches = 8});
//   ... const auto [loss, gradients] = trace::accumulate(8, {tokens, targets}, ...);
//   optimizer.step(gradients);
//
// Layers are the elements of the model's list of modules; what is declared before the list, as an
// embedding, is on the first stage, what is declared behind it on the last. A tied embedding is on
// both, and they add up its gradients. The step is traced as for one rank; what each stage of it
// does is found when it is compiled (passes/distribute/extract_stage.h). To a session all states
// keep their names; what is asked for comes from the stage that has it, so every rank asks.
// UserError for a mesh without the axis, more stages than layers, or interleaved stages whose ranks
// do not divide the micro-batches.
void pipeline(GPT& model, const ir::Mesh& mesh, const PipelineOptions& options = {});
void pipeline(Llama& model, const ir::Mesh& mesh, const PipelineOptions& options = {});

// Of any model with one list of modules, cut into equal numbers of layers. `shared`: the parameters
// declared before or behind the list that the first and the last stage both read.
void pipeline(Module& model, const ir::Mesh& mesh, const std::vector<std::string>& shared,
              const PipelineOptions& options = {});

}  // namespace monograph::nn
