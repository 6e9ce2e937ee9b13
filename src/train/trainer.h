#pragma once

#include <atomic>
#include <cstdio>

#include "base/event.h"
#include "frontend/nn/fully_shard.h"
#include "frontend/nn/optim/optimizer.h"
#include "frontend/nn/pipeline.h"
#include "frontend/session/session.h"
#include "ops/collective/compression.h"
#include "train/models.h"
#include "train/report.h"

namespace monograph::train {

struct TrainConfig {
  ModelConfig model;
  std::string data_path;
  int64_t num_steps = 800;
  int64_t num_micro_batches = 1;  // that a step's batch is split into, one after the other
  double learning_rate = 2e-3, final_learning_rate = 2e-4;
  int64_t warmup_steps = 50;
  double weight_decay = 0.1, max_norm = 1.0;
  std::string loss_scale = "none";  // or dynamic, or a number (optim::LossScale)
  std::string moments = "f32";      // or bf16
  int64_t seed = 1;
  int64_t eval_every = 200, num_eval_batches = 8;
  int64_t sample_length = 200;       // tokens
  std::string init_from, save_path;  // safetensors files; empty: none
  std::string tensorboard_folder;
  std::string timeline_path;      // of a few steps, and of compilations; empty: none
  std::string checkpoint_folder;  // empty: none
  int64_t checkpoint_every = 0;   // steps; 0: at the end only
  int64_t checkpoint_keep = 3;
  bool resume = false;  // go on from the newest checkpoint, if there is one
  session::CompileOptions options;
  // Axes "data" or "dp", and "fsdp": the ranks, each of which trains on its part of every batch;
  // those of "fsdp" also keep parts of the parameters. Axis "tp": ranks with one part of the batch,
  // who divide the matrices. Axis "pp": ranks with layers of the model each. Null: one rank.
  std::shared_ptr<const runtime::MeshContext> mesh;
  nn::ShardStrategy strategy = nn::ShardStrategy::kFullShard;  // of axis "fsdp"
  bool is_sequence_parallel = false;                           // of axis "tp"
  ops::Compression compression;  // of gradients between ranks (nn::replicate)
  nn::PipelineOptions pipeline;  // of axis "pp"; num_micro_batches is that of a step
  bool is_quiet = false;         // only errors and, if asked for, JSON
};

struct TrainResult {
  int64_t num_steps = 0;       // done, those before a checkpoint too
  int64_t resumed_from = 0;    // steps that the checkpoint had done
  std::vector<double> losses;  // of each step done here, over the whole batch
  double training_loss = 0, validation_loss = 0, unigram_entropy = 0;
  bool is_interrupted = false;
  std::string sample;  // bytes of text, or the ids of tokens
  BuildReport build;
  RunReport run;
  ExchangeReport exchange;  // of several ranks
};

// Trains a language model on a text or a token file: compiles one step (forward, loss, backward,
// clip, AdamW), runs it, validates now and then, generates a sample at the end and says where the
// time went. Stops after the step in which `interrupted` becomes true on some rank. Several ranks
// (config.mesh) do the steps of one rank, up to rounding; rank 0 prints, samples and writes.
// UserError for bad settings or data, CommError when another rank fails.
TrainResult train(const TrainConfig& config, EventLog& events, std::FILE* out,
                  const std::atomic<bool>& interrupted);

}  // namespace monograph::train
