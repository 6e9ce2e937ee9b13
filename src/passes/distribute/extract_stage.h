#pragma once

#include <memory>

#include "passes/distribute/stage_homes.h"
#include "passes/pass.h"

namespace monograph::passes {

// Turns a step, traced as for one rank with its micro-batches one after the other, into that of one
// rank of a pipeline: the nodes of its stages, in the order of its frames (analysis/walls.h), with
// sends and recvs between them.
//   before: h = layer0(x); y = layer1(h); dh, g1 = layer1_backward(y); g0 = layer0_backward(dh)
//   after, rank 0: h = layer0(x); send(h) to 1; dh = recv() from 1; g0 = layer0_backward(dh)
//   after, rank 1: h = recv() from 0; y = layer1(h); dh, g1 = layer1_backward(y); send(dh) to 0
// What inputs, states and constants alone make is made on each rank that reads it. Gradients of a
// parameter that several ranks have are sent between them and added in the order of the ranks;
// sums of single numbers over all parameters are completed by all_reduce, and what the step returns
// comes by broadcast. Keeps: numbers, but for the order of sums. `report`: of the whole pipeline;
// may be null. UserError as StageHomes.
std::unique_ptr<ir::Graph> extract_stage(std::unique_ptr<ir::Graph> graph,
                                         const PipelineRequest& request, PassContext& context,
                                         analysis::PipelineReport* report = nullptr);

}  // namespace monograph::passes
