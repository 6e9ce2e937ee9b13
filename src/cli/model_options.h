#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "frontend/session/options.h"
#include "ir/mesh.h"
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

  // UserError for text that is no axis and size, or an axis that there is none of.
  ir::Mesh mesh() const;
};
void add_mesh_options(Arguments& arguments, MeshOptions& options);

}  // namespace monograph::cli
