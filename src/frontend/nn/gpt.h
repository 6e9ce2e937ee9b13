#pragma once

#include <deque>

#include "frontend/nn/layers.h"

namespace monograph::nn {

struct GPTConfig {
  int64_t vocab_size = 256;
  int64_t block_size = 128;  // most tokens of context
  int64_t n_layer = 4;
  int64_t n_head = 4;
  int64_t n_embd = 128;
  double dropout = 0;
};

// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019) with Hugging
// Face's parameter names and [in, out] weights; the head is the token embedding, tied.
class GPT : public Module {
 public:
  explicit GPT(const GPTConfig& config);
  // tokens: integers [batch, length <= block_size] -> logits [batch, length, vocab_size].
  Tensor operator()(const Tensor& tokens) const;
  // Mean loss; targets: integers [batch, length].
  Tensor loss(const Tensor& tokens, const Tensor& targets) const;
  // Over the targets that are not `ignored`.
  Tensor loss(const Tensor& tokens, const Tensor& targets, int64_t ignored) const;
  const GPTConfig& config() const { return config_; }

 private:
  class Attention : public Module {
   public:
    Attention(Module& owner, const GPTConfig& config);
    Tensor operator()(const Tensor& x) const;

   private:
    int64_t n_head_;
    Linear c_attn_, c_proj_;
    Dropout attn_dropout_, resid_dropout_;
  };
  class FeedForward : public Module {
   public:
    FeedForward(Module& owner, const GPTConfig& config);
    Tensor operator()(const Tensor& x) const;

   private:
    Linear c_fc_, c_proj_;
    Dropout dropout_;
  };
  class Block : public Module {
   public:
    Block(Module& owner, int64_t layer, const GPTConfig& config);
    Tensor operator()(const Tensor& x) const;

   private:
    LayerNorm ln_1_;
    Attention attn_;
    LayerNorm ln_2_;
    FeedForward mlp_;
  };
  class Blocks : public Module {
   public:
    Blocks(Module& owner, const GPTConfig& config);
    Tensor operator()(Tensor x) const;

   private:
    std::deque<Block> blocks_;  // never moved
  };

  GPTConfig config_;
  Embedding wte_, wpe_;
  Dropout drop_;
  Blocks h_;
  LayerNorm ln_f_;
};

}  // namespace monograph::nn
