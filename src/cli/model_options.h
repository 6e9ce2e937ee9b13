#pragma once

#include "cli/arguments.h"
#include "frontend/session/options.h"
#include "train/models.h"

namespace monograph::cli {

// The options that `train` and `compile` share: the model's sizes, and how it is compiled.
// takes_images: models of images are offered too.
void add_model_options(Arguments& arguments, train::ModelConfig& model, bool takes_images);
void add_compile_options(Arguments& arguments, session::CompileOptions& options);

}  // namespace monograph::cli
