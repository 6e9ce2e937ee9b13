#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "frontend/nn/layers.h"

namespace monograph::nn {

struct ResNetConfig {
  std::vector<int64_t> blocks = {3, 4, 6, 3};  // of each stage
  bool is_bottleneck = true;                   // three convolutions a block, not two
  int64_t width = 64;                          // of the stem; doubled at each later stage
  int64_t channels = 3;
  int64_t num_classes = 1000;

  static ResNetConfig resnet18() { return {.blocks = {2, 2, 2, 2}, .is_bottleneck = false}; }
  static ResNetConfig resnet50() { return {}; }
};

// ResNet (He et al., "Deep residual learning for image recognition", 2015) with torchvision's names
// and its places of the strides (on the 3x3 convolution). Images lie channels last, weights are
// [height, width, in, out]; running statistics are buffers.
class ResNet : public Module {
 public:
  explicit ResNet(const ResNetConfig& config);
  // images: f32[batch, height, width, channels] -> logits [batch, num_classes].
  Tensor operator()(const Tensor& images) const;
  // Mean loss; labels: integers [batch].
  Tensor loss(const Tensor& images, const Tensor& labels) const;
  const ResNetConfig& config() const { return config_; }

 private:
  // The shortcut of a block that changes the size.
  struct Downsample : Module {
    Downsample(Module& owner, int64_t in, int64_t out, int64_t stride);
    Tensor operator()(const Tensor& x) const { return norm(conv(x)); }

    Conv2d conv;
    BatchNorm norm;
  };
  class Block : public Module {
   public:
    Block(Module& owner, int64_t number, const ResNetConfig& config, int64_t in, int64_t width,
          int64_t stride);
    Tensor operator()(const Tensor& x) const;

   private:
    std::deque<Conv2d> convs_;  // never moved, as the next
    std::deque<BatchNorm> norms_;
    std::optional<Downsample> downsample_;
  };
  class Stage : public Module {
   public:
    Stage(Module& owner, int64_t number, const ResNetConfig& config);
    Tensor operator()(Tensor x) const;

   private:
    std::deque<Block> blocks_;
  };

  ResNetConfig config_;
  Conv2d conv1_;
  BatchNorm bn1_;
  std::deque<Stage> stages_;
  Linear fc_;
};

}  // namespace monograph::nn
