#include "frontend/nn/rotary.h"

#include <cmath>

namespace monograph::nn {
namespace {

using Function = double (*)(double);

Initializer table(Function function, int64_t width, double theta) {
  return Initializer::function([=](int64_t i) {
    const int64_t half = width / 2, position = i / half, pair = i % half;
    const double exponent = -2 * static_cast<double>(pair) / static_cast<double>(width);
    return function(static_cast<double>(position) * std::pow(theta, exponent));
  });
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(Module& owner, std::string_view name, int64_t length,
                                 int64_t width, double theta)
    : Module(owner, name),
      cosine(add_buffer("cosine", {length, 1, width / 2}, table(std::cos, width, theta))),
      sine(add_buffer("sine", {length, 1, width / 2}, table(std::sin, width, theta))) {}

Tensor RotaryEmbedding::operator()(const Tensor& x) const {
  const trace::Scope scope = enter(x);
  const auto rows = [&](const State& state) { return x.trace().read(state).slice(0, 0, x.dim(1)); };
  const Tensor c = rows(cosine), s = rows(sine);
  const std::vector<Tensor> half = x.split(x.dim(-1) / 2, -1);
  return trace::cat({half[0] * c - half[1] * s, half[1] * c + half[0] * s}, -1);
}

}  // namespace monograph::nn
