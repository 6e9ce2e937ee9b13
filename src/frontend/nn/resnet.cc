#include "frontend/nn/resnet.h"

#include <cmath>

#include "base/error.h"

namespace monograph::nn {
namespace {

constexpr int64_t kExpansion = 4;  // of a bottleneck's last convolution

void check_config(const ResNetConfig& c) {
  bool is_fine = !c.blocks.empty() && c.width >= 1 && c.channels >= 1 && c.num_classes >= 1;
  for (const int64_t count : c.blocks) is_fine = is_fine && count >= 1;
  if (is_fine) return;
  throw_user_error(
      "ResNet of blocks [{}], width {}, channels {}, num_classes {}: each must be 1 or more, and "
      "there must be a stage",
      fmt::join(c.blocks, ","), c.width, c.channels, c.num_classes);
}

int64_t stage_width(const ResNetConfig& config, int64_t stage) {
  return config.width << stage;
}

int64_t stage_channels(const ResNetConfig& config, int64_t stage) {
  return stage_width(config, stage) * (config.is_bottleneck ? kExpansion : 1);
}

int64_t last_channels(const ResNetConfig& config) {
  return stage_channels(config, std::ssize(config.blocks) - 1);
}

// Of uniform numbers up to 1 / sqrt(inputs), with which PyTorch begins.
double head_deviation(const ResNetConfig& config) {
  return 1 / std::sqrt(3 * static_cast<double>(last_channels(config)));
}

}  // namespace

ResNet::Downsample::Downsample(Module& owner, int64_t in, int64_t out, int64_t stride)
    : Module(owner, "downsample"),
      conv(*this, "0", {.in = in, .out = out, .kernel = 1, .stride = stride}),
      norm(*this, "1", out) {}

ResNet::Block::Block(Module& owner, int64_t number, const ResNetConfig& config, int64_t in,
                     int64_t width, int64_t stride)
    : Module(owner, std::to_string(number)) {
  const auto add = [&](Conv2d::Config conv) {
    const size_t count = convs_.size() + 1;
    convs_.emplace_back(*this, fmt::format("conv{}", count), conv);
    norms_.emplace_back(*this, fmt::format("bn{}", count), conv.out);
  };
  const int64_t out = width * (config.is_bottleneck ? kExpansion : 1);
  if (config.is_bottleneck) {
    add({.in = in, .out = width, .kernel = 1});
    add({.in = width, .out = width, .kernel = 3, .stride = stride, .padding = 1});
    add({.in = width, .out = out, .kernel = 1});
  } else {
    add({.in = in, .out = width, .kernel = 3, .stride = stride, .padding = 1});
    add({.in = width, .out = out, .kernel = 3, .padding = 1});
  }
  if (stride != 1 || in != out) downsample_.emplace(*this, in, out, stride);
}

Tensor ResNet::Block::operator()(const Tensor& x) const {
  const trace::Scope scope = enter(x);
  Tensor y = x;
  for (size_t i = 0; i < convs_.size(); ++i) {
    y = norms_[i](convs_[i](y));
    if (i + 1 < convs_.size()) y = relu(y);
  }
  return residual(relu(y + (downsample_ ? (*downsample_)(x) : x)));
}

ResNet::Stage::Stage(Module& owner, int64_t number, const ResNetConfig& config)
    : Module(owner, fmt::format("layer{}", number + 1)) {
  int64_t in = number == 0 ? config.width : stage_channels(config, number - 1);
  for (int64_t block = 0; block < config.blocks[number]; ++block) {
    const int64_t stride = block == 0 && number > 0 ? 2 : 1;
    blocks_.emplace_back(*this, block, config, in, stage_width(config, number), stride);
    in = stage_channels(config, number);
  }
}

Tensor ResNet::Stage::operator()(Tensor x) const {
  for (const Block& block : blocks_) x = block(x);
  return x;
}

ResNet::ResNet(const ResNetConfig& config)
    : config_((check_config(config), config)),
      conv1_(*this, "conv1",
             {.in = config.channels, .out = config.width, .kernel = 7, .stride = 2, .padding = 3}),
      bn1_(*this, "bn1", config.width),
      stages_([&] {
        std::deque<Stage> stages;
        for (int64_t number = 0; number < std::ssize(config.blocks); ++number) {
          stages.emplace_back(*this, number, config);
        }
        return stages;
      }()),
      fc_(*this, "fc", last_channels(config), config.num_classes, head_deviation(config)) {}

Tensor ResNet::operator()(const Tensor& images) const {
  if (images.rank() != 4 || images.dim(3) != config_.channels) {
    throw_user_error("images {} for a ResNet of {} channels: use [batch, height, width, {}]",
                     images.type().str(), config_.channels, config_.channels);
  }
  const trace::Scope scope = enter(images);
  Tensor x = max_pool2d(relu(bn1_(conv1_(images))), 3, 2, 1);
  for (const Stage& stage : stages_) x = stage(x);
  return fc_(global_avg_pool2d(x));
}

Tensor ResNet::loss(const Tensor& images, const Tensor& labels) const {
  return cross_entropy((*this)(images), labels);
}

}  // namespace monograph::nn
