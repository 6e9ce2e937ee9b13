#pragma once

#include <optional>

#include "frontend/nn/module.h"

namespace monograph::nn {

// x @ weight + bias; x: [..., in], weight: [in, out]. Begins normal(0, 0.02), as GPT-2 does; the
// bias, if there is one, at 0.
class Linear : public Module {
 public:
  Linear(Module& owner, std::string_view name, int64_t in, int64_t out, double deviation = 0.02,
         bool has_bias = true);
  Tensor operator()(const TensorArgument& x) const;

  Parameter weight;
  std::optional<Parameter> bias;
};

// Rows of weight [count, width] by integer ids.
class Embedding : public Module {
 public:
  Embedding(Module& owner, std::string_view name, int64_t count, int64_t width);
  Tensor operator()(const TensorArgument& ids) const;

  Parameter weight;
};

// Over the last axis, of size `width`.
class LayerNorm : public Module {
 public:
  LayerNorm(Module& owner, std::string_view name, int64_t width, double epsilon = 1e-5);
  Tensor operator()(const TensorArgument& x) const;

  Parameter weight, bias;

 private:
  double epsilon_;
};

// x weight / sqrt(mean(x^2) + epsilon) over the last axis, of size `width` (Zhang & Sennrich, "Root
// mean square layer normalization", 2019).
class RMSNorm : public Module {
 public:
  RMSNorm(Module& owner, std::string_view name, int64_t width, double epsilon = 1e-5);
  Tensor operator()(const TensorArgument& x) const;

  Parameter weight;

 private:
  double epsilon_;
};

// In training mode, trace::dropout; otherwise nothing.
class Dropout : public Module {
 public:
  Dropout(Module& owner, std::string_view name, double rate);
  Tensor operator()(const TensorArgument& x) const;
  // The rate that holds now: 0 outside training.
  double rate(trace::Trace& trace) const { return is_training(trace) ? rate_ : 0; }

 private:
  double rate_;
};

// Convolution without bias of images [batch, height, width, in]; weight: [kernel, kernel, in, out].
// Begins as He et al. have it (2015), by the number of outputs that an element goes to.
class Conv2d : public Module {
 public:
  struct Config {
    int64_t in, out, kernel;
    int64_t stride = 1, padding = 0;
  };
  Conv2d(Module& owner, std::string_view name, const Config& config);
  Tensor operator()(const TensorArgument& x) const;

  Parameter weight;

 private:
  int64_t stride_, padding_;
};

// Of each index of the last axis, of size `width` (Ioffe & Szegedy, "Batch normalization", 2015).
// In training, normalises by mean and variance over the other axes and moves the buffers
// running_mean and running_var (of the unbiased variance) towards them; otherwise normalises by the
// buffers.
class BatchNorm : public Module {
 public:
  BatchNorm(Module& owner, std::string_view name, int64_t width, double momentum = 0.1,
            double epsilon = 1e-5);
  Tensor operator()(const TensorArgument& x) const;

  Parameter weight, bias;
  State running_mean, running_var;

 private:
  double momentum_, epsilon_;
};

}  // namespace monograph::nn
