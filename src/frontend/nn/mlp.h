#pragma once

#include <deque>

#include "frontend/nn/layers.h"

namespace monograph::nn {

struct MLPConfig {
  int64_t vocab_size = 256;
  int64_t block_size = 16;  // tokens of context
  int64_t n_embd = 32;
  int64_t n_hidden = 256;
  int64_t n_layer = 2;  // hidden layers
};

// A language model over a fixed window (Bengio et al., "A neural probabilistic language model",
// 2003): the embeddings of block_size tokens side by side, then GELU layers. Parameters: wte, fc1,
// fc2, ...
class MLP : public Module {
 public:
  explicit MLP(const MLPConfig& config);
  // tokens: integers [batch, block_size] -> logits [batch, vocab_size] of the token that follows.
  Tensor operator()(const Tensor& tokens) const;
  // Mean loss; targets: integers [batch].
  Tensor loss(const Tensor& tokens, const Tensor& targets) const;
  // Over the targets that are not `ignored`.
  Tensor loss(const Tensor& tokens, const Tensor& targets, int64_t ignored) const;
  const MLPConfig& config() const { return config_; }

 private:
  MLPConfig config_;
  Embedding wte_;
  std::deque<Linear> layers_;  // never moved
};

}  // namespace monograph::nn
