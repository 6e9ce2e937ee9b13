#pragma once

#include <optional>
#include <vector>

#include "frontend/nn/optim/flat.h"
#include "frontend/nn/optim/loss_scale.h"
#include "frontend/nn/optim/schedule.h"
#include "frontend/trace/gradients.h"

namespace monograph::optim {

// What a step can report.
struct Metrics {
  trace::Tensor gradient_norm;  // f32[], before clipping; empty when nothing is clipped
  trace::Tensor learning_rate;  // f32[]
  trace::Tensor is_finite;      // bool[]: the step was done; empty without a loss scale
};

struct AdamWConfig {
  Schedule learning_rate;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // of parameters with two or more dims
  double max_norm = 0;         // clips the norm of all gradients together; 0: no clipping
  std::optional<LossScale> loss_scale = {};  // by which the loss was multiplied
  // Of both moments; f32 or bf16, half the memory. They are rounded when stored: with bf16, beta2
  // above 0.99 hardly moves the second moment.
  ir::DType moment_dtype = ir::DType::kF32;
};

// Loshchilov & Hutter, "Decoupled weight decay regularization" (2019), as PyTorch computes it. The
// moments are states "optimizer.m.NAME" and "optimizer.v.NAME". Steps are counted by the trace,
// with a loss scale by a state "optimizer.updates": those that were skipped do not count.
class AdamW {
 public:
  AdamW(std::vector<trace::Parameter> parameters, AdamWConfig config);
  // Appends the update of every parameter that has a gradient. Once a trace.
  Metrics step(const trace::Gradients& gradients,
               trace::Location where = trace::Location::current());

 private:
  trace::Tensor count(trace::Trace& trace, const trace::Tensor& is_finite) const;

  std::vector<trace::Parameter> parameters_;
  AdamWConfig config_;
  std::vector<trace::State> first_, second_;  // moments, beside parameters_
  trace::State updates_;                      // done, with a loss scale
};

struct SGDConfig {
  Schedule learning_rate;
  double momentum = 0;
  double weight_decay = 0;  // of parameters with two or more dims
  double max_norm = 0;      // 0: no clipping
};

// Stochastic gradient descent; with momentum, the velocity is a state "optimizer.m.NAME".
class SGD {
 public:
  SGD(std::vector<trace::Parameter> parameters, SGDConfig config);
  Metrics step(const trace::Gradients& gradients,
               trace::Location where = trace::Location::current());

 private:
  std::vector<trace::Parameter> parameters_;
  SGDConfig config_;
  std::vector<trace::State> velocity_;
};

}  // namespace monograph::optim
