#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "frontend/session/options.h"
#include "ir/mesh.h"
#include "ops/collective/compression.h"
#include "train/models.h"

namespace monograph::cli {

// The options that `train` and `compile` share: the model's sizes, and how it is compiled.
// takes_images: models of images are offered too.
void add_model_options(Arguments& arguments, train::ModelConfig& model, bool takes_images);
void add_compile_options(Arguments& arguments, session::CompileOptions& options);
void add_moments_option(Arguments& arguments, std::string& moments);

// How a step is divided over ranks.
struct MeshOptions {
  std::vector<std::string> axes;  // "fsdp=2"
  std::string strategy = "full-shard";
  bool is_sequence_parallel = false;
  std::string link;  // "30us:4GB/s"; empty: that of the device
  std::string compress = "none";
  std::string schedule = "1f1b", cut = "layers";  // of axis pp
  int64_t chunks = 2;
  int64_t stage = 0;  // the place on axis pp whose step is compiled

  // UserError for text that is no axis and size, or an axis that there is none of.
  ir::Mesh mesh() const;
  nn::PipelineOptions pipeline(int64_t micro_batches) const;
  // UserError for text that is no compression, or where no gradients are exchanged on the mesh.
  ops::Compression compression(const ir::Mesh& mesh) const;
};
void add_mesh_options(Arguments& arguments, MeshOptions& options);
void add_stage_option(Arguments& arguments, MeshOptions& options);
// "accumulate", also known as "micro-batches".
void add_micro_batches_option(Arguments& arguments, int64_t& count);

}  // namespace monograph::cli
