#include "frontend/trace/gradients.h"

#include <algorithm>

#include "base/error.h"
#include "frontend/trace/trace.h"
#include "passes/autodiff/autodiff.h"
#include "passes/autodiff/check_gradients.h"

namespace monograph::trace {
namespace {

ir::ValueMap<ir::Value> differentiate_at(const Tensor& loss, const std::vector<ir::Value>& wrt,
                                         const Location& where) {
  try {
    Trace& trace = loss.trace();
    return passes::differentiate(trace.graph(), loss.value(), wrt, trace.context(),
                                 trace.custom_gradients());
  } catch (const UserError& error) {
    throw_user_error("{}\n  in backward() at {}:{}", error.what(), where.file_name(), where.line());
  }
}

// V2 at once, while the graph holds forward and backward only.
void check_backward(const Tensor& loss, const std::vector<Trace::TracedState>& parameters,
                    const ir::ValueMap<ir::Value>& found) {
  std::vector<passes::ParameterGradient> gradients;
  for (const Trace::TracedState& known : parameters) {
    const auto gradient = found.find(known.node->result());
    gradients.push_back({known.node, gradient == found.end() ? ir::Value{} : gradient->second});
  }
  const auto violations = passes::check_gradients(loss.trace().graph(), loss.value(), gradients,
                                                  !loss.trace().custom_gradients().empty());
  if (!violations.empty()) {
    throw_internal_error("backward is not consistent:\n{}", ir::to_text(violations));
  }
}

}  // namespace

void Gradients::add(const State& parameter, Tensor gradient) {
  parameters_.push_back(parameter);
  gradients_.push_back(std::move(gradient));
}

void Gradients::take_mean_of_units(MeanOver mean) {
  for (const MeanOver& known : means_) {
    if (known.axis != mean.axis) continue;
    throw_user_error(
        "gradients are reduced twice over axis '{}': call replicate once for each axis", mean.axis);
  }
  means_.push_back(std::move(mean));
}

const Tensor* Gradients::find(const State& parameter) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].is_same(parameter)) return &gradients_[i];
  }
  return nullptr;
}

Tensor Gradients::operator[](const State& parameter) const {
  if (const Tensor* gradient = find(parameter)) return *gradient;
  const bool is_unused =
      std::find(unused_.begin(), unused_.end(), parameter.name()) != unused_.end();
  throw_user_error("parameter '{}' has no gradient: {}", parameter.name(),
                   *parameter.frozen() ? "it is frozen"
                   : is_unused         ? "the loss does not depend on it"
                                       : "this step does not read it");
}

Gradients Tensor::backward(Location where) const {
  Trace& traced = trace();
  std::vector<Trace::TracedState> parameters;
  std::vector<ir::Value> wrt;
  for (const Trace::TracedState& known : traced.states()) {
    if (known.state.role() != ir::StateRole::kParameter) continue;
    const std::string what = fmt::format("parameter '{}' is frozen", known.state.name());
    if (traced.read_switch(known.state.frozen(), what)) continue;
    parameters.push_back(known);
    wrt.push_back(known.node->result());
  }
  const bool is_first = !traced.has_backward();
  const ir::ValueMap<ir::Value> found = differentiate_at(*this, wrt, where);
  if (is_first) check_backward(*this, parameters, found);
  Gradients gradients(trace_);
  for (const Trace::TracedState& known : parameters) {
    const auto gradient = found.find(known.node->result());
    if (gradient == found.end()) {
      gradients.add_unused(known.state.name());
      const auto& noted = traced.unused_parameters();
      if (std::find(noted.begin(), noted.end(), known.state.name()) == noted.end()) {
        traced.note_unused(known.state.name());
      }
    } else {
      gradients.add(known.state, {trace_, gradient->second});
    }
  }
  return gradients;
}

std::vector<Tensor> gradients_of(const Tensor& loss, const std::vector<Tensor>& tensors,
                                 Location where) {
  std::vector<ir::Value> wrt;
  for (const Tensor& tensor : tensors) wrt.push_back(tensor.value());
  const ir::ValueMap<ir::Value> found = differentiate_at(loss, wrt, where);
  std::vector<Tensor> gradients;
  for (const Tensor& tensor : tensors) {
    const auto gradient = found.find(tensor.value());
    if (gradient == found.end()) {
      throw_user_error("the loss does not depend on tensor {} of {} ({})\n  at {}:{}",
                       gradients.size(), tensors.size(), tensor.type().str(), where.file_name(),
                       where.line());
    }
    gradients.emplace_back(loss.trace().shared_from_this(), gradient->second);
  }
  return gradients;
}

}  // namespace monograph::trace
