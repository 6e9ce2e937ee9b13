#include "train/image_models.h"

#include <algorithm>

#include "base/error.h"
#include "frontend/import/hugging_face.h"
#include "frontend/nn/resnet.h"

namespace monograph::train {
namespace {

struct Preset {
  std::string_view name;
  nn::ResNetConfig config;
  int64_t image, batch;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets = {
      {"resnet-tiny",
       {.blocks = {1, 1}, .is_bottleneck = false, .width = 16, .num_classes = 10},
       32,
       32},
      {"resnet18", nn::ResNetConfig::resnet18(), 224, 16},
      {"resnet50", nn::ResNetConfig::resnet50(), 224, 16},
  };
  return kPresets;
}

const Preset& preset_named(std::string_view name) {
  const auto found = std::find_if(presets().begin(), presets().end(),
                                  [&](const Preset& preset) { return preset.name == name; });
  check(found != presets().end(), "no preset of images '{}'", name);
  return *found;
}

nn::ResNetConfig with_classes(nn::ResNetConfig config, int64_t num_classes) {
  config.num_classes = num_classes;
  return config;
}

class ResNetModel : public Model {
 public:
  explicit ResNetModel(const ModelConfig& config)
      : Model(config), resnet_(with_classes(preset_named(config.name).config, config.classes)) {}
  nn::Module& module() override { return resnet_; }
  import::WeightNames weight_names() const override { return import::torchvision_names(resnet_);
} bool is_image_model() const override {
  return true;
}
trace::Tensor loss(const trace::Tensor& images, const trace::Tensor& labels) const override {
  return resnet_.loss(images, labels);
}
std::vector<ir::TensorType> input_types() const override {
  const int64_t channels = resnet_.config().channels;
  return {{ir::DType::kF32, {config_.batch, config_.image, config_.image, channels}},
          {ir::DType::kI64, {config_.batch}}};
}

private:
nn::ResNet resnet_;
};  // namespace

void check_unused(const ModelConfig& given) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"vocab", given.vocab},     {"layers", given.num_layers},
      {"heads", given.num_heads}, {"kv-heads", given.num_kv_heads},
      {"embd", given.embedding},  {"hidden", given.hidden},
      {"block", given.block}};
  for (const auto& [name, size] : sizes) {
    if (size == ModelConfig::kPreset) continue;
    throw_user_error("model {} takes no --{}: it has --image, --classes and --batch", given.name,
                     name);
  }
  if (given.dropout > 0) throw_user_error("model {} takes no --dropout: it has none", given.name);
}

}  // namespace monograph::train

std::unique_ptr<Model> make_image_model(const ModelConfig& given) {
  const Preset& preset = preset_named(given.name);
  check_unused(given);
  ModelConfig config = given;
  const auto fill = [](const char* name, int64_t& size, int64_t preset_size) {
    if (size == ModelConfig::kPreset) size = preset_size;
    if (size < 1) throw_user_error("--{} {}: use 1 or more", name, size);
  };
  fill("image", config.image, preset.image);
  fill("classes", config.classes, preset.config.num_classes);
  fill("batch", config.batch, preset.batch);
  return std::make_unique<ResNetModel>(config);
}

std::vector<std::string> image_model_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

bool contains_image_model(std::string_view name) {
  const auto names = image_model_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace monograph::train
