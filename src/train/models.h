#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/import/weights.h"
#include "frontend/nn/module.h"
#include "frontend/nn/pipeline.h"
#include "frontend/nn/tensor_parallel.h"
#include "train/dataset.h"

namespace monograph::train {

// A preset with its sizes; kPreset stands for "the preset's".
struct ModelConfig {
  static constexpr int64_t kPreset = -1;
  std::string name = "gpt-nano";
  int64_t vocab = kPreset;
  int64_t num_layers = kPreset, num_heads = kPreset, num_kv_heads = kPreset;
  int64_t embedding = kPreset, hidden = kPreset;
  int64_t block = kPreset;                     // tokens of context
  int64_t image = kPreset, classes = kPreset;  // of images: pixels a side, kinds
  int64_t batch = kPreset;
  double dropout = kPreset;
};

// A model as compiling and training see it: a loss of two inputs.
class Model {
 public:
  virtual ~Model() = default;
  virtual nn::Module& module() = 0;
  virtual trace::Tensor loss(const trace::Tensor& inputs, const trace::Tensor& targets) const = 0;
  virtual std::vector<ir::TensorType> input_types() const = 0;  // of `loss`
  // Divides its parameters over the mesh's axis tp. UserError for a model that has no plan for it.
  virtual void divide(const ir::Mesh& mesh, const nn::TensorParallelOptions& options);
  // Cuts it into stages over the mesh's axis pp. UserError for a model that has no plan for it.
  virtual void cut(const ir::Mesh& mesh, const nn::PipelineOptions& options);
  // The names of its weights in safetensors files: those of the library that is known for it.
  virtual import::WeightNames weight_names() const = 0;
  virtual bool is_image_model() const { return false; }
  const ModelConfig& config() const { return config_; }

 protected:
  explicit Model(ModelConfig config) : config_(std::move(config)) {}
  ModelConfig config_;  // every size filled in
};

// A language model over tokens (bytes, or those of a token file).
class LanguageModel : public Model {
 public:
  // Of the token after each window of tokens: f32[batch, vocab].
  virtual trace::Tensor next_logits(const trace::Tensor& tokens) const = 0;
  // Over the targets that are not kNoTarget.
  virtual trace::Tensor padded_loss(const trace::Tensor& inputs,
                                    const trace::Tensor& targets) const = 0;
  // What `loss` takes of a batch of windows.
  virtual Batch fit(Batch batch) const { return batch; }
  std::vector<ir::TensorType> input_types() const override;

 protected:
  using Model::Model;
};

// UserError for an unknown preset (naming the presets), a size below 1, heads that do not divide
// the embedding, or a dropout outside [0, 1).
std::unique_ptr<LanguageModel> make_language_model(const ModelConfig& config);
std::vector<std::string> language_model_names();

// Of any preset: a language model or an image model (image_models.h).
std::unique_ptr<Model> make_model(const ModelConfig& config);
std::vector<std::string> model_names();

}  // namespace monograph::train
