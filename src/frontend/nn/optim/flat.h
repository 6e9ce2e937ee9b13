#pragma once

#include <vector>

#include "frontend/trace/gradients.h"
#include "frontend/trace/trace.h"

namespace monograph::optim {

// Parameters and their gradients side by side in one flat value, each at a multiple of 256 bytes
// with zeros between. Order: first those with weight decay (two or more dims), then the others,
// both in reverse order of declaration, which is about the order in which gradients are made.
class FlatRange {
 public:
  // Of the parameters that have a gradient.
  FlatRange(const std::vector<trace::Parameter>& parameters, const trace::Gradients& gradients);

  const std::vector<trace::Parameter>& parameters() const { return parameters_; }
  int64_t num_elements() const { return num_elements_; }
  // Elements at the front that belong to parameters with weight decay.
  int64_t num_decay_elements() const { return num_decay_elements_; }

  // Tensors in the order of `parameters()` -> f32[num_elements].
  trace::Tensor pack(const std::vector<trace::Tensor>& tensors) const;
  trace::Tensor pack_gradients() const;
  // The values of states in the order of `parameters()`.
  trace::Tensor pack_states(const std::vector<trace::State>& states) const;
  // Sets each state to its part of the flat value.
  void update(const std::vector<trace::State>& states, const trace::Tensor& flat) const;

 private:
  trace::Trace& trace_;
  std::vector<trace::Parameter> parameters_;
  std::vector<trace::Tensor> gradients_;
  int64_t num_elements_ = 0;
  int64_t num_decay_elements_ = 0;
};

}  // namespace monograph::optim
