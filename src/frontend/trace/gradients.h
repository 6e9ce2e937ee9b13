#pragma once

#include <string>
#include <vector>

#include "frontend/trace/tensor.h"
#include "ops/collective/compression.h"

namespace monograph::trace {

// The gradients of a loss by parameter. A parameter without one has none here: it is named in
// `unused`, never given as zero.
class Gradients {
 public:
  explicit Gradients(std::shared_ptr<Trace> trace) : trace_(std::move(trace)) {}
  void add(const State& parameter, Tensor gradient);
  void add_unused(const std::string& parameter) { unused_.push_back(parameter); }

  // Of parameters in a flat unit, the mean over a mesh axis is taken of the unit's gradients as a
  // whole, by the optimizer: until then they are those of this rank. UserError when an axis is
  // given twice.
  struct MeanOver {
    std::string axis;
    int64_t size = 1;
    ops::Compression compression = {};  // of units of enough elements, but for vectors
  };
  void take_mean_of_units(MeanOver mean);
  const std::vector<MeanOver>& means_of_units() const { return means_; }

  Trace& trace() const { return *trace_; }
  bool contains(const State& parameter) const { return find(parameter) != nullptr; }
  // UserError, with the reason, when the parameter has no gradient.
  Tensor operator[](const State& parameter) const;
  // In the order in which the parameters were first read.
  const std::vector<State>& parameters() const { return parameters_; }
  // Trainable parameters that were read, but on which the loss does not depend.
  const std::vector<std::string>& unused() const { return unused_; }

 private:
  const Tensor* find(const State& parameter) const;

  std::shared_ptr<Trace> trace_;
  std::vector<State> parameters_;
  std::vector<Tensor> gradients_;
  std::vector<std::string> unused_;
  std::vector<MeanOver> means_;
};

// The gradients of a scalar loss for any traced tensors, one each. UserError for a tensor on which
// the loss does not depend.
std::vector<Tensor> gradients_of(const Tensor& loss, const std::vector<Tensor>& tensors,
                                 Location where = Location::current());

}  // namespace monograph::trace
