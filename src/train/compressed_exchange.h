#pragma once

#include <string>

#include "frontend/nn/replicate.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

// Training whose gradients are compressed (TrainConfig::compression).
namespace monograph::train {

// UserError where it cannot be: one rank, a loss scale beside what ranks keep unsent, or a GPU that
// lacks an op for it.
void check_compression(const TrainConfig& config);

// How gradients become means over one axis.
nn::ReplicateOptions replicate_options(const TrainConfig& config, const ir::Mesh& mesh,
                                       const std::string& axis);

// Makes what ranks had not sent yet, in a checkpoint, fit the ranks of the session: the same number
// of them go on as they were; another number begin each with the mean of all, so that nothing is
// lost of the mean; where the run before had none, or of another shape, they begin with zeros, and
// what this run has no use for is dropped. Returns what was changed, empty: nothing.
std::string fit_exchange_states(const session::Session& session, Checkpoint& checkpoint);

}  // namespace monograph::train
