#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/session/session.h"
#include "ir/literal.h"

namespace monograph::train {

// A run between two steps.
struct Checkpoint {
  int64_t step = 0;                             // steps done
  std::map<std::string, std::string> settings;  // that must be equal to go on: model, seed, data
  std::map<std::string, ir::Literal> states;    // by logical name

  // UserError naming the first setting that differs; `folder` holds this checkpoint.
  void check_settings(const std::string& folder,
                      const std::map<std::string, std::string>& expected) const;
};

// A folder of checkpoints holds for each a file of tensors, step-N.safetensors, and a manifest with
// step, settings and a checksum (XXH3) of every tensor and of itself, step-N.json. Each file is
// there as a whole or not at all, the manifest last: without one, a checkpoint does not exist. So
// the newest is whole wherever its writer was stopped.

// Steps of the checkpoints there, ascending; none when the folder does not exist.
std::vector<int64_t> checkpoint_steps(const std::string& folder);

// UserError when it cannot be written; the folder is made if needed.
void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint);

// UserError naming the file, and the tensor, for one that is missing, cut, or was changed.
Checkpoint read_checkpoint(const std::string& folder, int64_t step);

// Removes all but the newest `keep` and what interrupted writers have left.
void clean_checkpoints(const std::string& folder, int64_t keep);

// Whether the state is of the run, and not of a rank (its place on the mesh, its seed) or of one
// step.
bool is_saved(const std::string& state);

// Gives the session the states of a checkpoint. UserError naming the tensors that are missing,
// unexpected or of another type: it is of another model.
void restore(const Checkpoint& checkpoint, const std::string& folder, session::Session& session);

// Writes checkpoints in the background, one at a time.
class CheckpointWriter {
 public:
  // Keeps the newest `keep` of the folder. UserError for fewer than one.
  CheckpointWriter(std::string folder, int64_t keep);
  ~CheckpointWriter();  // after the one that is being written
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Returns when the writer has taken it; waits for the one before. Says whether it had to. Throws
  // what went wrong with the one before.
  bool save(Checkpoint checkpoint);
  // Until all are written; throws what went wrong.
  void finish();

 private:
  std::string folder_;
  int64_t keep_;
  std::future<void> writing_;
};

}  // namespace monograph::train
