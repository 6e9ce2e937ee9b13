#include "frontend/import/hugging_face.h"

namespace monograph::import {
namespace {

const std::vector<int64_t> kTransposed = {1, 0};
const std::vector<int64_t> kChannelsLast = {2, 3, 1, 0};  // [out, in, height, width] to ours

bool is_embedding(const std::string& name) {
  return name.ends_with("embed_tokens.weight");
}

}  // namespace

WeightNames hugging_face_names(const nn::GPT& model) {
  WeightNames names = own_names(model);
  names.optional_prefix = "transformer.";
  for (WeightName& weight : names.weights) weight.stored = names.optional_prefix + weight.stored;
  names.ignored_endings = {".attn.bias", ".attn.masked_bias"};  // the causal mask, of old files
  names.copies = {{"lm_head.weight", "transformer.wte.weight"}};
  return names;
}

WeightNames hugging_face_names(const nn::Llama& model) {
  WeightNames names = own_names(model);
  // The tables of rotary positions follow from rope_theta; old files have its frequencies.
  std::erase_if(names.weights, [](const WeightName& weight) {
    return weight.stored.starts_with("model.rotary_emb.");
  });
  names.ignored_endings = {"rotary_emb.inv_freq"};
  for (WeightName& weight : names.weights) {
    const bool is_matrix = weight.state.shape().rank() == 2;
    if (is_matrix && !is_embedding(weight.stored)) weight.axes = kTransposed;
  }
  if (model.config().is_tied) names.copies = {{"lm_head.weight", "model.embed_tokens.weight"}};
  return names;
}

WeightNames torchvision_names(const nn::ResNet& model) {
  WeightNames names = own_names(model);
  for (WeightName& weight : names.weights) {
    const int rank = weight.state.shape().rank();
    if (rank == 2) weight.axes = kTransposed;
    if (rank == 4) weight.axes = kChannelsLast;
  }
  names.ignored_endings = {".num_batches_tracked"};
  return names;
}

WeightNames own_names(const nn::Module& model) {
  WeightNames names;
  for (const trace::State& state : model.parameters()) {
    names.weights.push_back({state, state.name(), {}});
  }
  for (const trace::State& state : model.buffers()) {
    names.weights.push_back({state, state.name(), {}});
  }
  return names;
}

}  // namespace monograph::import
