#pragma once

#include "frontend/nn/module.h"

namespace monograph::nn {

// x @ weight + bias; x: [..., in], weight: [in, out]. Begins normal(0, 0.02), as GPT-2 does; the
// bias at 0.
class Linear : public Module {
 public:
  Linear(Module& owner, std::string_view name, int64_t in, int64_t out, double deviation = 0.02);
  Tensor operator()(const TensorArgument& x) const;

  Parameter weight, bias;
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

// x: [rows, width]. In training, normalises each column by the rows' mean and variance and moves
// the buffers running_mean and running_var towards them; otherwise normalises by the buffers.
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
