#include "frontend/nn/mlp.h"

#include <cmath>

#include "base/error.h"

namespace monograph::nn {

MLP::MLP(const MLPConfig& config)
    : config_(config), wte_(*this, "wte", config.vocab_size, config.n_embd) {
  int64_t width = config.block_size * config.n_embd;
  for (int64_t layer = 1; layer <= config.n_layer + 1; ++layer) {
    const int64_t out = layer <= config.n_layer ? config.n_hidden : config.vocab_size;
    const double deviation =
        layer <= config.n_layer ? std::sqrt(1.0 / static_cast<double>(width)) : 0.02;
    layers_.emplace_back(*this, fmt::format("fc{}", layer), width, out, deviation);
    width = out;
  }
}

Tensor MLP::operator()(const Tensor& tokens) const {
  if (tokens.rank() != 2 || tokens.dim(1) != config_.block_size) {
    throw_user_error("tokens {} for an MLP of block_size {}: use [batch, {}]", tokens.type().str(),
                     config_.block_size, config_.block_size);
  }
  const trace::Scope scope = enter(tokens);
  Tensor hidden = wte_(tokens).flatten(1);
  for (size_t i = 0; i < layers_.size(); ++i) {
    hidden = layers_[i](hidden);
    if (i + 1 < layers_.size()) hidden = gelu(hidden, trace::Gelu::kTanh);
  }
  return hidden;
}

Tensor MLP::loss(const Tensor& tokens, const Tensor& targets) const {
  return cross_entropy((*this)(tokens), targets);
}

Tensor MLP::loss(const Tensor& tokens, const Tensor& targets, int64_t ignored) const {
  return cross_entropy((*this)(tokens), targets, ignored);
}

}  // namespace monograph::nn
