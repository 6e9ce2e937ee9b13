#pragma once

#include "frontend/import/weights.h"
#include "frontend/nn/gpt.h"
#include "frontend/nn/llama.h"
#include "frontend/nn/resnet.h"

namespace monograph::import {

// GPT2LMHeadModel's names, or GPT2Model's, which lack "transformer.". Its Conv1D weights are
// [in, out] like ours: nothing is transposed.
WeightNames hugging_face_names(const nn::GPT& model);

// LlamaForCausalLM's names. Its Linear weights are [out, in]: the transpose of ours.
WeightNames hugging_face_names(const nn::Llama& model);

// torchvision's names. Convolutions lie [out, in, height, width] there, the head [out, in].
WeightNames torchvision_names(const nn::ResNet& model);

// The model's own names and shapes.
WeightNames own_names(const nn::Module& model);

}  // namespace monograph::import
