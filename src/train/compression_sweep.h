#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "frontend/session/options.h"
#include "train/models.h"

namespace monograph::train {

struct SweepConfig {
  ModelConfig model;
  std::string data_path;
  int64_t num_steps = 200;
  int64_t num_ranks = 2;  // threads of this process
  double learning_rate = 2e-3;
  int64_t seed = 1;
  // Of each run, beside one without compression (ops::parse_compression).
  std::vector<std::string> settings = {"qsgd:8",     "qsgd:4",     "qsgd:2",
                                       "topk:0.1",   "topk:0.01",  "topk:0.001",
                                       "powersgd:4", "powersgd:2", "powersgd:1"};
  double tolerance = 0.1;  // share of the uncompressed loss by which a run may lie above it
  session::CompileOptions options;
};

// What training with one setting came to.
struct SweepRow {
  std::string setting;
  int64_t sent_bytes = 0;     // by a rank in a step, on rings
  double deviation = 0;       // mean over steps of |g' - g| / |g|: g' what training sees, g exact
  double norm_deviation = 0;  // mean over steps of ||g'| / |g| - 1|
  double loss = 0;            // mean of the last 10 steps
  int64_t broken_since = -1;  // step from which it is not finite or beyond the tolerance; -1: none
  std::vector<std::string> findings = {};  // of the indices that are sent (IndexWatch)
};

// Trains the model from one beginning on the same batches, without and with each setting. The first
// row is that without. UserError for bad settings, or ranks that do not divide the batch.
std::vector<SweepRow> sweep_compression(const SweepConfig& config);

// The first step, counted from 1, of those at the end whose loss, in a mean of 10, is not finite or
// more than `tolerance` of the reference's above that; -1: the last one is not.
int64_t broken_since(const std::vector<double>& losses, const std::vector<double>& reference,
                     double tolerance);

void print(std::FILE* out, const SweepConfig& config, const std::vector<SweepRow>& rows);

}  // namespace monograph::train
