#pragma once

#include <functional>
#include <vector>

#include "frontend/trace/gradients.h"

namespace monograph::trace {

// A loss and its gradients, as from one batch.
struct Accumulated {
  Tensor loss;
  Gradients gradients;
};

// Gradient accumulation in the graph: splits each tensor of the batch into `count` equal slices
// along axis 0 and differentiates `loss` on one slice after the other. The loss is the mean of
// theirs; their gradients are added up in f32 as they come, so that activations of one slice live
// at a time. The micro-batches are traced one by one: their kernels are equal and compiled once.
//
//   const auto [loss, gradients] = trace::accumulate(4, {tokens, targets}, [&](const auto& slice) {
//     return model.loss(slice[0], slice[1]);
//   });
//   optimizer.step(gradients);
//
// Each micro-batch draws the random numbers of its rows of the batch, and sees the buffers (batch
// statistics) that the one before it left. UserError when `count` does not divide an axis 0.
Accumulated accumulate(int64_t count, const std::vector<Tensor>& batch,
                       const std::function<Tensor(const std::vector<Tensor>&)>& loss,
                       Location where = Location::current());

}  // namespace monograph::trace
