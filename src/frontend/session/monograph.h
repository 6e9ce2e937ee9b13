#pragma once

// Everything that a program which trains a model needs.
#include "frontend/nn/fully_shard.h"
#include "frontend/nn/gpt.h"
#include "frontend/nn/layers.h"
#include "frontend/nn/llama.h"
#include "frontend/nn/mlp.h"
#include "frontend/nn/optim/optimizer.h"
#include "frontend/nn/pipeline.h"
#include "frontend/nn/replicate.h"
#include "frontend/nn/resnet.h"
#include "frontend/nn/tensor_parallel.h"
#include "frontend/session/session.h"
#include "frontend/trace/accumulate.h"
#include "frontend/trace/collectives.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/gradients.h"

namespace monograph {

using ir::DType;
using ir::Literal;
using session::compile;
using session::CompileOptions;
using session::Session;
using trace::Outputs;
using trace::Tensor;

}  // namespace monograph
