#include "frontend/nn/layers.h"

#include <cmath>
#include <numeric>
#include <tuple>

#include "base/error.h"

namespace monograph::nn {

Linear::Linear(Module& owner, std::string_view name, int64_t in, int64_t out, double deviation,
               bool has_bias)
    : Module(owner, name),
      weight(add_parameter("weight", {in, out}, Initializer::normal(0, deviation))) {
  if (has_bias) bias = add_parameter("bias", {out}, Initializer::constant(0));
}

Tensor Linear::operator()(const TensorArgument& x) const {
  const trace::Caller caller(path(), {x});
  const trace::Scope scope = enter(caller.read(x));
  return bias ? linear(x, weight, *bias) : linear(x, weight);
}

Embedding::Embedding(Module& owner, std::string_view name, int64_t count, int64_t width)
    : Module(owner, name),
      weight(add_parameter("weight", {count, width}, Initializer::normal(0, 0.02))) {}

Tensor Embedding::operator()(const TensorArgument& ids) const {
  const trace::Caller caller(path(), {ids});
  const trace::Scope scope = enter(caller.read(ids));
  return embedding(weight, ids);
}

LayerNorm::LayerNorm(Module& owner, std::string_view name, int64_t width, double epsilon)
    : Module(owner, name),
      weight(add_parameter("weight", {width}, Initializer::constant(1))),
      bias(add_parameter("bias", {width}, Initializer::constant(0))),
      epsilon_(epsilon) {}

Tensor LayerNorm::operator()(const TensorArgument& x) const {
  const trace::Caller caller(path(), {x});
  const trace::Scope scope = enter(caller.read(x));
  return layer_norm(x, weight, bias, epsilon_);
}

RMSNorm::RMSNorm(Module& owner, std::string_view name, int64_t width, double epsilon)
    : Module(owner, name),
      weight(add_parameter("weight", {width}, Initializer::constant(1))),
      epsilon_(epsilon) {}

Tensor RMSNorm::operator()(const TensorArgument& x) const {
  const trace::Caller caller(path(), {x});
  const trace::Scope scope = enter(caller.read(x));
  return rms_norm(x, weight, epsilon_);
}

Dropout::Dropout(Module& owner, std::string_view name, double rate)
    : Module(owner, name), rate_(rate) {
  if (rate < 0 || rate >= 1) {
    throw_user_error("dropout '{}' of rate {}: use 0 up to, not including, 1", path(), rate);
  }
}

Tensor Dropout::operator()(const TensorArgument& x) const {
  const trace::Caller caller(path(), {x});
  const trace::Scope scope = enter(caller.read(x));
  return dropout(x, rate(caller.trace()));
}

Conv2d::Conv2d(Module& owner, std::string_view name, const Config& c)
    : Module(owner, name),
      weight(
          add_parameter("weight", {c.kernel, c.kernel, c.in, c.out},
                        Initializer::normal(
                            0, std::sqrt(2.0 / static_cast<double>(c.kernel * c.kernel * c.out))))),
      stride_(c.stride),
      padding_(c.padding) {}

Tensor Conv2d::operator()(const TensorArgument& x) const {
  const trace::Caller caller(path(), {x});
  const trace::Scope scope = enter(caller.read(x));
  return conv2d(x, weight, stride_, padding_);
}

// Mean and variance over all axes but the last, in one pass: of differences from the first element,
// which keep the digits that a difference of large squares would lose (Chan, Golub & LeVeque,
// "Algorithms for computing the sample variance", 1983).
static std::pair<Tensor, Tensor> moments_of(const Tensor& x) {
  trace::Axes axes(x.rank() - 1);
  std::iota(axes.begin(), axes.end(), 0);
  Tensor first = detach(x);
  for (const int64_t axis : axes) first = first.slice(static_cast<int>(axis), 0, 1);
  const Tensor difference = x - first;
  const Tensor shifted = mean(difference, axes), squares = mean(difference * difference, axes);
  return {shifted + first.reshape({x.dim(-1)}), maximum(squares - shifted * shifted, 0.0)};
}

BatchNorm::BatchNorm(Module& owner, std::string_view name, int64_t width, double momentum,
                     double epsilon)
    : Module(owner, name),
      weight(add_parameter("weight", {width}, Initializer::constant(1))),
      bias(add_parameter("bias", {width}, Initializer::constant(0))),
      running_mean(add_buffer("running_mean", {width}, Initializer::constant(0))),
      running_var(add_buffer("running_var", {width}, Initializer::constant(1))),
      momentum_(momentum),
      epsilon_(epsilon) {}

Tensor BatchNorm::operator()(const TensorArgument& argument) const {
  const trace::Caller caller(path(), {argument});
  trace::Trace& trace = caller.trace();
  const Tensor x = caller.read(argument);
  const trace::Scope scope = enter(x);
  Tensor average = trace.read(running_mean), variance = trace.read(running_var);
  if (is_training(trace)) {
    const Tensor old_average = average, old_variance = variance;
    std::tie(average, variance) = moments_of(x);
    const auto rows = static_cast<double>(x.shape().num_elements() / x.dim(-1));
    const auto moved = [&](const Tensor& from, const Tensor& to, double factor) {
      return from * (1 - momentum_) + detach(to) * (momentum_ * factor);
    };
    trace.update(running_mean, moved(old_average, average, 1));
    trace.update(running_var, moved(old_variance, variance, rows / (rows - 1)));
  }
  return (x - average) * rsqrt(variance + epsilon_) * weight + bias;
}

}  // namespace monograph::nn
