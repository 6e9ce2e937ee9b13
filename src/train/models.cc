#include "train/models.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "frontend/import/hugging_face.h"
#include "frontend/nn/gpt.h"
#include "frontend/nn/llama.h"
#include "frontend/nn/mlp.h"
#include "train/image_models.h"

namespace monograph::train {
namespace {

constexpr int64_t kNumBytes = 256;
constexpr int64_t kNone = 0;  // a size that the family has not

enum class Family { kMLP, kGPT, kLlama };

struct Preset {
  ModelConfig config;
  Family family = Family::kGPT;
  bool is_tied = true;  // Llama: the head is the token embedding
};

// Sizes from Radford et al. (GPT-2, 2019).
Preset gpt2(std::string name, int64_t layers, int64_t heads, int64_t embedding) {
  return {{.name = std::move(name),
           .vocab = kNumBytes,
           .num_layers = layers,
           .num_heads = heads,
           .num_kv_heads = kNone,
           .embedding = embedding,
           .hidden = 4 * embedding,
           .block = 256,
           .batch = 4,
           .dropout = 0},
          Family::kGPT};
}

// A Llama of 1.04 billion parameters with a tied head, 1.10 billion without.
Preset llama_1b(std::string name, bool is_tied) {
  return {{.name = std::move(name),
           .vocab = 32000,
           .num_layers = 16,
           .num_heads = 32,
           .num_kv_heads = 8,
           .embedding = 2048,
           .hidden = 8192,
           .block = 2048,
           .batch = 1,
           .dropout = 0},
          Family::kLlama,
          is_tied};
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets = {
      {{.name = "mlp",
        .vocab = kNumBytes,
        .num_layers = 2,
        .num_heads = kNone,
        .num_kv_heads = kNone,
        .embedding = 32,
        .hidden = 256,
        .block = 16,
        .batch = 64,
        .dropout = 0},
       Family::kMLP},
      {{.name = "gpt-nano",
        .vocab = kNumBytes,
        .num_layers = 4,
        .num_heads = 4,
        .num_kv_heads = kNone,
        .embedding = 128,
        .hidden = 512,
        .block = 128,
        .batch = 16,
        .dropout = 0},
       Family::kGPT},
      gpt2("gpt2-124m", 12, 12, 768),
      gpt2("gpt2-medium", 24, 16, 1024),
      gpt2("gpt2-large", 36, 20, 1280),
      gpt2("gpt2-xl", 48, 25, 1600),
      {{.name = "llama-nano",
        .vocab = kNumBytes,
        .num_layers = 4,
        .num_heads = 4,
        .num_kv_heads = 2,
        .embedding = 128,
        .hidden = 352,
        .block = 128,
        .batch = 16,
        .dropout = 0},
       Family::kLlama},
      llama_1b("llama-1b", true),
      llama_1b("llama-1b-untied", false),
  };
  return kPresets;
}

const Preset& preset_named(const std::string& name) {
  for (const Preset& preset : presets()) {
    if (preset.config.name == name) return preset;
  }
  const bool is_image_model = contains_image_model(name);
  throw_user_error("{} '{}': use one of {}",
                   is_image_model ? "no language model is called" : "unknown model", name,
                   fmt::join(is_image_model ? language_model_names() : model_names(), ", "));
}

ModelConfig filled(const Preset& preset, const ModelConfig& given) {
  ModelConfig result = preset.config;
  for (const auto size : {&ModelConfig::vocab, &ModelConfig::num_layers, &ModelConfig::num_heads,
                          &ModelConfig::num_kv_heads, &ModelConfig::embedding, &ModelConfig::hidden,
                          &ModelConfig::block, &ModelConfig::batch}) {
    if (given.*size != ModelConfig::kPreset) result.*size = given.*size;
  }
  if (given.dropout != ModelConfig::kPreset) result.dropout = given.dropout;
  return result;
}

// A size that the model has not is refused, not ignored.
void check_unused(Family family, const ModelConfig& given) {
  const auto refuse = [&](bool has_not, const char* option, bool is_given, const char* advice) {
    if (has_not && is_given)
      throw_user_error("model {} takes no --{}: {}", given.name, option, advice);
  };
  const auto is_given = [](int64_t size) { return size != ModelConfig::kPreset; };
  refuse(family == Family::kMLP, "heads", is_given(given.num_heads), "it has no attention");
  refuse(family != Family::kLlama, "kv-heads", is_given(given.num_kv_heads),
         "only the llama models group queries");
  refuse(family != Family::kGPT, "dropout", given.dropout > 0, "it has none");
  refuse(true, "image", is_given(given.image), "it reads tokens");
  refuse(true, "classes", is_given(given.classes), "it has a vocabulary, --vocab");
  refuse(family == Family::kGPT, "hidden", is_given(given.hidden),
         "its hidden layers are four times --embd wide");
}

void check_sizes(Family family, const ModelConfig& config) {
  const auto check_size = [](const char* name, int64_t size) {
    if (size < 1) throw_user_error("--{} {}: use 1 or more", name, size);
  };
  check_size("vocab", config.vocab);
  check_size("layers", config.num_layers);
  check_size("embd", config.embedding);
  check_size("hidden", config.hidden);
  check_size("block", config.block);
  check_size("batch", config.batch);
  if (family != Family::kMLP) {
    check_size("heads", config.num_heads);
    if (config.embedding % config.num_heads != 0) {
      throw_user_error("--heads {} does not divide --embd {}: use a divisor", config.num_heads,
                       config.embedding);
    }
  }
  if (family == Family::kLlama) {
    check_size("kv-heads", config.num_kv_heads);
    if (config.num_heads % config.num_kv_heads != 0) {
      throw_user_error("--kv-heads {} does not divide --heads {}: use a divisor",
                       config.num_kv_heads, config.num_heads);
    }
  }
  if (config.dropout < 0 || config.dropout >= 1)
    throw_user_error("--dropout {}: use a number in [0, 1)", config.dropout);
}

// Of the last position: logits [batch, length, vocab] -> [batch, vocab].
trace::Tensor last_position(const trace::Tensor& logits) {
  return logits.slice(1, -1, logits.dim(1)).squeeze(1);
}

class GPTModel : public LanguageModel {
 public:
  explicit GPTModel(const ModelConfig& config)
      : LanguageModel(config),
        gpt_({.vocab_size = config.vocab,
              .block_size = config.block,
              .n_layer = config.num_layers,
              .n_head = config.num_heads,
              .n_embd = config.embedding,
              .dropout = config.dropout}) {}
  nn::Module& module() override { return gpt_; }
  void divide(const ir::Mesh& mesh, const nn::TensorParallelOptions& options) override {
    nn::tensor_parallel(gpt_, mesh, options);
  }
  void cut(const ir::Mesh& mesh, const nn::PipelineOptions& options) override {
    nn::pipeline(gpt_, mesh, options);
  }
  import::WeightNames weight_names() const override { return import::hugging_face_names(gpt_);
} trace::Tensor loss(const trace::Tensor& tokens, const trace::Tensor& targets) const override {
  return gpt_.loss(tokens, targets);
}
trace::Tensor padded_loss(const trace::Tensor& tokens,
                          const trace::Tensor& targets) const override {
  return gpt_.loss(tokens, targets, kNoTarget);
}
trace::Tensor next_logits(const trace::Tensor& tokens) const override {
  return last_position(gpt_(tokens));
}

private:
nn::GPT gpt_;
};  // namespace

class LlamaModel : public LanguageModel {
 public:
  LlamaModel(const ModelConfig& config, bool is_tied)
      : LanguageModel(config),
        llama_({.vocab_size = config.vocab,
                .block_size = config.block,
                .n_layer = config.num_layers,
                .n_head = config.num_heads,
                .n_kv_head = config.num_kv_heads,
                .n_embd = config.embedding,
                .n_hidden = config.hidden,
                .is_tied = is_tied}) {}
  nn::Module& module() override { return llama_; }
  void divide(const ir::Mesh& mesh, const nn::TensorParallelOptions& options) override {
    nn::tensor_parallel(llama_, mesh, options);
  }
  void cut(const ir::Mesh& mesh, const nn::PipelineOptions& options) override {
    nn::pipeline(llama_, mesh, options);
  }
  import::WeightNames weight_names() const override { return import::hugging_face_names(llama_);
} trace::Tensor loss(const trace::Tensor& tokens, const trace::Tensor& targets) const override {
  return llama_.loss(tokens, targets);
}
trace::Tensor padded_loss(const trace::Tensor& tokens,
                          const trace::Tensor& targets) const override {
  return llama_.loss(tokens, targets, kNoTarget);
}
trace::Tensor next_logits(const trace::Tensor& tokens) const override {
  return last_position(llama_(tokens));
}

private:
nn::Llama llama_;
};  // namespace monograph::train

class MLPModel : public LanguageModel {
 public:
  explicit MLPModel(const ModelConfig& config)
      : LanguageModel(config),
        mlp_({.vocab_size = config.vocab,
              .block_size = config.block,
              .n_embd = config.embedding,
              .n_hidden = config.hidden,
              .n_layer = config.num_layers}) {}
  nn::Module& module() override { return mlp_; }
  import::WeightNames weight_names() const override { return import::own_names(mlp_);
} trace::Tensor loss(const trace::Tensor& tokens, const trace::Tensor& targets) const override {
  return mlp_.loss(tokens, targets);
}
trace::Tensor padded_loss(const trace::Tensor& tokens,
                          const trace::Tensor& targets) const override {
  return mlp_.loss(tokens, targets, kNoTarget);
}
trace::Tensor next_logits(const trace::Tensor& tokens) const override {
  return mlp_(tokens);
}

// The window's last target only: the token that follows the window.
Batch fit(Batch batch) const override {
  const int64_t rows = batch.targets.type().shape[0];
  const int64_t length = batch.targets.type().shape[1];
  std::vector<int64_t> last;
  for (int64_t row = 0; row < rows; ++row) {
    last.push_back(batch.targets.get_i64(row * length + length - 1));
  }
  batch.targets = ir::Literal::from_i64({rows}, std::move(last));
  return batch;
}

private:
nn::MLP mlp_;
}
;

}  // namespace

void Model::divide(const ir::Mesh& mesh, const nn::TensorParallelOptions& options) {
  if (mesh.size(options.axis) == 1) return;
  throw_user_error("model {} has no plan for tensor parallel training: use a gpt or llama model",
                   config_.name);
}

void Model::cut(const ir::Mesh& mesh, const nn::PipelineOptions&) {
  if (!mesh.has_stages()) return;
  throw_user_error("model {} has no plan for pipeline parallel training: use a gpt or llama model",
                   config_.name);
}

std::vector<std::string> language_model_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.config.name);
  return names;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names = language_model_names();
  for (std::string& name : image_model_names()) names.push_back(std::move(name));
  return names;
}

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  if (contains_image_model(config.name)) return make_image_model(config);
  return make_language_model(config);
}

std::vector<ir::TensorType> LanguageModel::input_types() const {
  const ir::TensorType windows = {ir::DType::kI64, {config_.batch, config_.block}};
  const Batch fitted = fit({ir::Literal(windows), ir::Literal(windows)});
  return {fitted.tokens.type(), fitted.targets.type()};
}

std::unique_ptr<LanguageModel> make_language_model(const ModelConfig& given) {
  const Preset& preset = preset_named(given.name);
  const ModelConfig config = filled(preset, given);
  check_unused(preset.family, given);
  check_sizes(preset.family, config);
  switch (preset.family) {
    case Family::kMLP:
      return std::make_unique<MLPModel>(config);
    case Family::kGPT:
      return std::make_unique<GPTModel>(config);
    case Family::kLlama:
      return std::make_unique<LlamaModel>(config, preset.is_tied);
  }
  throw_internal_error("preset '{}' is of no family", given.name);
}

}  // namespace monograph::train
