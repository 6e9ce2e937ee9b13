#pragma once

#include <string>
#include <string_view>

#include "frontend/trace/gradients.h"
#include "ir/mesh.h"
#include "ops/collective/compression.h"

namespace monograph::nn {

// Data parallel training: every rank has the whole model and its own part of the batch, and the
// gradients become their mean over the ranks of the axis. One line on a model that knows nothing
// of it:
//
//   optimizer.step(nn::replicate(loss.backward(), mesh));
//
// Each gradient gets an all_reduce and a multiplication; passes put them in buckets that are sent
// while the backward pass goes on. The loss is that of the rank's part: all_mean gives that of all.
// Parameters of a sharded unit are reduced together, by the optimizer (see fully_shard). Where
// parts are of equal size, training is that of one rank with the whole batch, up to rounding.
trace::Gradients replicate(const trace::Gradients& gradients, const ir::Mesh& mesh,
                           std::string_view axis = "data");

// The same, exchanged in fewer bytes (docs/compression.md):
//
//   optimizer.step(nn::replicate(loss.backward(), mesh, {.compression = nn::qsgd(4)}));
//
// The means are those of what ranks send: of the same expectation (qsgd), or so that what is not
// sent now is added to what is sent later (top_k, power_sgd), for which each rank keeps a state of
// the gradient's size. Tensors of fewer than two axes or of less than `min_elements` elements are
// exchanged as they are; so are those that factors would not halve. UserError for an axis of one
// rank, settings out of range, and power_sgd of sharded units.
struct ReplicateOptions {
  std::string axis = "data";
  ops::Compression compression = {};
};
trace::Gradients replicate(const trace::Gradients& gradients, const ir::Mesh& mesh,
                           const ReplicateOptions& options);

ops::Compression qsgd(int64_t bits);       // 2, 4 or 8 an element
ops::Compression top_k(double fraction);   // of the elements of each tensor, in (0, 1]
ops::Compression power_sgd(int64_t rank);  // columns of each factor, from 1

// For parts of different sizes, as where a last batch is short or a rank has no more data. `count`:
// f32[], of the samples or tokens that this rank's loss is the mean over, 0 if there are none.
// Gives their mean number over the ranks. The loss so weighted
//
//   loss = loss * (count / nn::mean_count(count, mesh));
//
// makes the means that `replicate` and all_mean take over ranks those over all samples.
trace::Tensor mean_count(const trace::Tensor& count, const ir::Mesh& mesh,
                         std::string_view axis = "data");

}  // namespace monograph::nn
