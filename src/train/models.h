#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/nn/module.h"
#include "train/text_data.h"

namespace monograph::train {

// A preset with its sizes; kPreset stands for "the preset's".
struct ModelConfig {
  static constexpr int64_t kPreset = -1;
  std::string name = "gpt-nano";
  int64_t num_layers = kPreset, num_heads = kPreset, embedding = kPreset, hidden = kPreset;
  int64_t block = kPreset;  // tokens of context
  int64_t batch = kPreset;
  double dropout = kPreset;
};

// A language model over bytes, as the training loop sees it.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual nn::Module& module() = 0;
  virtual trace::Tensor loss(const trace::Tensor& tokens, const trace::Tensor& targets) const = 0;
  // Of the byte after each window of tokens: f32[batch, 256].
  virtual trace::Tensor next_logits(const trace::Tensor& tokens) const = 0;
  // What `loss` takes of a batch of windows.
  virtual Batch fit(Batch batch) const { return batch; }

  std::vector<ir::TensorType> input_types() const;  // of `loss`
  const ModelConfig& config() const { return config_; }

 protected:
  explicit LanguageModel(ModelConfig config) : config_(std::move(config)) {}
  ModelConfig config_;  // every size filled in
};

// UserError for an unknown preset (naming the presets), a size below 1, heads that do not divide
// the embedding, or a dropout outside [0, 1).
std::unique_ptr<LanguageModel> make_model(const ModelConfig& config);
std::vector<std::string> model_names();

}  // namespace monograph::train
