#include "train/models.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "frontend/nn/gpt.h"
#include "frontend/nn/mlp.h"

namespace monograph::train {
namespace {

constexpr int64_t kNumBytes = 256;

const std::vector<ModelConfig>& presets() {
  static const std::vector<ModelConfig> kPresets = {
      {.name = "mlp",
       .num_layers = 2,
       .num_heads = 1,
       .embedding = 32,
       .hidden = 256,
       .block = 16,
       .batch = 64,
       .dropout = 0},
      {.name = "gpt-nano",
       .num_layers = 4,
       .num_heads = 4,
       .embedding = 128,
       .hidden = 512,
       .block = 128,
       .batch = 16,
       .dropout = 0},
      {.name = "gpt2-124m",
       .num_layers = 12,
       .num_heads = 12,
       .embedding = 768,
       .hidden = 3072,
       .block = 256,
       .batch = 4,
       .dropout = 0},
  };
  return kPresets;
}

ModelConfig filled(const ModelConfig& given) {
  for (const ModelConfig& preset : presets()) {
    if (preset.name != given.name) continue;
    ModelConfig result = preset;
    const auto take = [](int64_t& size, int64_t value) {
      if (value != ModelConfig::kPreset) size = value;
    };
    take(result.num_layers, given.num_layers);
    take(result.num_heads, given.num_heads);
    take(result.embedding, given.embedding);
    take(result.hidden, given.hidden);
    take(result.block, given.block);
    take(result.batch, given.batch);
    if (given.dropout != ModelConfig::kPreset) result.dropout = given.dropout;
    return result;
  }
  throw_user_error("unknown model '{}': use one of {}", given.name, fmt::join(model_names(), ", "));
}

// A size that the model has not is refused, not ignored.
void check_unused(const ModelConfig& given) {
  const bool is_mlp = given.name == "mlp";
  const auto refuse = [&](const char* option, bool is_given, const char* advice) {
    if (is_given) throw_user_error("model {} takes no --{}: {}", given.name, option, advice);
  };
  refuse("heads", is_mlp && given.num_heads != ModelConfig::kPreset, "it has no attention");
  refuse("dropout", is_mlp && given.dropout > 0, "it has none");
  refuse("hidden", !is_mlp && given.hidden != ModelConfig::kPreset,
         "its hidden layers are four times --embd wide");
}

void check_sizes(const ModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"layers", config.num_layers}, {"heads", config.num_heads}, {"embd", config.embedding},
      {"hidden", config.hidden},     {"block", config.block},     {"batch", config.batch}};
  for (const auto& [name, size] : sizes) {
    if (size < 1) throw_user_error("--{} {}: use 1 or more", name, size);
  }
  if (config.embedding % config.num_heads != 0) {
    throw_user_error("--heads {} does not divide --embd {}: use a divisor", config.num_heads,
                     config.embedding);
  }
  if (config.dropout < 0 || config.dropout >= 1)
    throw_user_error("--dropout {}: use a number in [0, 1)", config.dropout);
}

class GPTModel : public LanguageModel {
 public:
  explicit GPTModel(const ModelConfig& config)
      : LanguageModel(config),
        gpt_({.vocab_size = kNumBytes,
              .block_size = config.block,
              .n_layer = config.num_layers,
              .n_head = config.num_heads,
              .n_embd = config.embedding,
              .dropout = config.dropout}) {}
  nn::Module& module() override { return gpt_; }
  trace::Tensor loss(const trace::Tensor& tokens, const trace::Tensor& targets) const override {
    return gpt_.loss(tokens, targets);
  }
  trace::Tensor next_logits(const trace::Tensor& tokens) const override {
    const trace::Tensor logits = gpt_(tokens);
    const ir::Shape& shape = logits.type().shape;
    return logits.slice(1, shape[1] - 1, shape[1]).reshape({shape[0], shape[2]});
  }

 private:
  nn::GPT gpt_;
};

class MLPModel : public LanguageModel {
 public:
  explicit MLPModel(const ModelConfig& config)
      : LanguageModel(config),
        mlp_({.vocab_size = kNumBytes,
              .block_size = config.block,
              .n_embd = config.embedding,
              .n_hidden = config.hidden,
              .n_layer = config.num_layers}) {}
  nn::Module& module() override { return mlp_; }
  trace::Tensor loss(const trace::Tensor& tokens, const trace::Tensor& targets) const override {
    return mlp_.loss(tokens, targets);
  }
  trace::Tensor next_logits(const trace::Tensor& tokens) const override { return mlp_(tokens); }

  // The window's last target only: the byte that follows the window.
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
};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelConfig& preset : presets()) names.push_back(preset.name);
  return names;
}

std::vector<ir::TensorType> LanguageModel::input_types() const {
  const ir::TensorType windows = {ir::DType::kI64, {config_.batch, config_.block}};
  const Batch fitted = fit({ir::Literal(windows), ir::Literal(windows)});
  return {fitted.tokens.type(), fitted.targets.type()};
}

std::unique_ptr<LanguageModel> make_model(const ModelConfig& given) {
  const ModelConfig config = filled(given);
  check_unused(given);
  check_sizes(config);
  if (config.name == "mlp") return std::make_unique<MLPModel>(config);
  return std::make_unique<GPTModel>(config);
}

}  // namespace monograph::train
