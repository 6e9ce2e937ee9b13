#pragma once

#include <deque>
#include <optional>

#include "frontend/nn/layers.h"
#include "frontend/nn/rotary.h"

namespace monograph::nn {

struct LlamaConfig {
  int64_t vocab_size = 256;
  int64_t block_size = 128;  // most tokens of context
  int64_t n_layer = 4;
  int64_t n_head = 4;
  int64_t n_kv_head = 2;  // heads of keys and values: a divisor of n_head
  int64_t n_embd = 128;
  int64_t n_hidden = 352;  // of SwiGLU
  double rope_theta = 500000;
  double rms_norm_eps = 1e-5;
  bool is_tied = true;  // the head is the token embedding
};

// Llama (Touvron et al., "LLaMA: open and efficient foundation language models", 2023, with the
// grouped-query attention of Llama 2): RMSNorm, rotary positions, SwiGLU, no biases. Parameters
// have Hugging Face's names; weights are [in, out], the transpose of Hugging Face's.
class Llama : public Module {
 public:
  explicit Llama(const LlamaConfig& config);
  // tokens: integers [batch, length <= block_size] -> logits [batch, length, vocab_size].
  Tensor operator()(const Tensor& tokens) const;
  // Mean loss; targets: integers [batch, length].
  Tensor loss(const Tensor& tokens, const Tensor& targets) const;
  // Over the targets that are not `ignored`.
  Tensor loss(const Tensor& tokens, const Tensor& targets, int64_t ignored) const;
  const LlamaConfig& config() const { return config_; }

 private:
  class Attention : public Module {
   public:
    Attention(Module& owner, const LlamaConfig& config);
    Tensor operator()(const Tensor& x, const RotaryEmbedding& rotary) const;

   private:
    int64_t width_;  // of a head
    Linear q_proj_, k_proj_, v_proj_, o_proj_;
  };
  class FeedForward : public Module {
   public:
    FeedForward(Module& owner, const LlamaConfig& config);
    Tensor operator()(const Tensor& x) const;

   private:
    Linear gate_proj_, up_proj_, down_proj_;
  };
  class Layer : public Module {
   public:
    Layer(Module& owner, int64_t number, const LlamaConfig& config);
    Tensor operator()(const Tensor& x, const RotaryEmbedding& rotary) const;

   private:
    Attention self_attn_;
    FeedForward mlp_;
    RMSNorm input_layernorm_, post_attention_layernorm_;
  };
  class Layers : public Module {
   public:
    Layers(Module& owner, const LlamaConfig& config);
    Tensor operator()(Tensor x, const RotaryEmbedding& rotary) const;

   private:
    std::deque<Layer> layers_;  // never moved
  };
  struct Body : Module {
    Body(Module& owner, const LlamaConfig& config);

    Embedding embed_tokens;
    Layers layers;
    RMSNorm norm;
    RotaryEmbedding rotary_emb;
  };

  LlamaConfig config_;
  Body model_;
  std::optional<Linear> lm_head_;  // none: tied
};

}  // namespace monograph::nn
