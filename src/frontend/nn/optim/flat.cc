#include "frontend/nn/optim/flat.h"

#include "base/error.h"
#include "frontend/trace/functions.h"

namespace monograph::optim {
namespace {

// In elements: 256 bytes of float32, so that a part begins a cache line and a vector.
constexpr int64_t kAlignment = 64;

bool decays(const trace::Parameter& parameter) {
  return parameter.shape().rank() >= 2;
}

int64_t padded(int64_t count) {
  return (count + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

FlatRange::FlatRange(const std::vector<trace::Parameter>& parameters,
                     const trace::Gradients& gradients)
    : trace_(gradients.trace()) {
  for (const bool with_decay : {true, false}) {
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      if (decays(*parameter) != with_decay || !gradients.contains(*parameter)) continue;
      if (parameter->type().dtype != ir::DType::kF32) {
        throw_user_error("optimizer: parameter '{}' is {}: only f32 parameters are supported",
                         parameter->name(), parameter->type().str());
      }
      parameters_.push_back(*parameter);
      gradients_.push_back(gradients[*parameter]);
      num_elements_ += padded(parameter->type().num_elements());
    }
    if (with_decay) num_decay_elements_ = num_elements_;
  }
  if (parameters_.empty()) {
    throw_user_error(
        "optimizer: none of its {} parameters has a gradient: are they those of the "
        "model that made the loss, and not frozen?",
        parameters.size());
  }
}

trace::Tensor FlatRange::pack(const std::vector<trace::Tensor>& tensors) const {
  return trace::emit("pack", {tensors.begin(), tensors.end()}, {{"alignment", kAlignment}});
}

trace::Tensor FlatRange::pack_gradients() const {
  return pack(gradients_);
}

trace::Tensor FlatRange::pack_states(const std::vector<trace::State>& states) const {
  std::vector<trace::Tensor> values;
  for (const trace::State& state : states) values.push_back(trace_.read(state));
  return pack(values);
}

void FlatRange::update(const std::vector<trace::State>& states, const trace::Tensor& flat) const {
  std::vector<ir::Shape> shapes;
  for (const trace::State& state : states) shapes.push_back(state.shape());
  const std::vector<trace::Tensor> parts =
      trace::emit_all("unpack", {flat}, {{"shapes", shapes}, {"alignment", kAlignment}});
  for (size_t i = 0; i < states.size(); ++i) trace_.update(states[i], parts[i]);
}

}  // namespace monograph::optim
