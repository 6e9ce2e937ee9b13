#pragma once

#include <string>
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
  // One of each flat unit, last first, and one of the parameters that are in none. Parameters of
  // which ranks of an axis have parts are apart, with and without decay. UserError when
  // some parameters of a unit have no gradient, or it was not reduced over the unit's axis.
  static std::vector<FlatRange> all(const std::vector<trace::Parameter>& parameters,
                                    const trace::Gradients& gradients);
  // What parameters of one range have in common.
  static std::string group_of(const trace::Parameter& parameter);
  static std::vector<trace::Parameter> in_order(const std::vector<trace::Parameter>& parameters);

  const std::vector<trace::Parameter>& parameters() const { return parameters_; }
  int64_t num_elements() const { return num_elements_; }
  // Elements at the front that belong to parameters with weight decay.
  int64_t num_decay_elements() const { return num_decay_elements_; }

  // Tensors in the order of `parameters()` -> f32[num_elements].
  trace::Tensor pack(const std::vector<trace::Tensor>& tensors) const;
  // Of a unit: their mean over the mesh axes that the gradients name.
  trace::Tensor pack_gradients() const;
  // The values of states in the order of `parameters()`.
  trace::Tensor pack_states(const std::vector<trace::State>& states) const;
  // Sets each state to its part of the flat value.
  void update(const std::vector<trace::State>& states, const trace::Tensor& flat) const;

 private:
  trace::Trace& trace_;
  std::vector<trace::Parameter> parameters_;
  std::vector<trace::Tensor> gradients_;
  std::vector<trace::Gradients::MeanOver> means_;  // of a unit: its own axis first
  int64_t num_elements_ = 0;
  int64_t num_decay_elements_ = 0;
};

}  // namespace monograph::optim
