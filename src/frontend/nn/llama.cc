#include "frontend/nn/llama.h"

#include <cmath>

#include "base/error.h"

namespace monograph::nn {
namespace {

constexpr bool kNoBias = false;

void check_config(const LlamaConfig& c) {
  if (c.vocab_size < 1 || c.block_size < 1 || c.n_layer < 1 || c.n_head < 1 || c.n_kv_head < 1 ||
      c.n_embd < 1 || c.n_hidden < 1) {
    throw_user_error(
        "Llama of vocab_size {}, block_size {}, n_layer {}, n_head {}, n_kv_head {}, n_embd {}, "
        "n_hidden {}: each must be 1 or more",
        c.vocab_size, c.block_size, c.n_layer, c.n_head, c.n_kv_head, c.n_embd, c.n_hidden);
  }
  if (c.n_head % c.n_kv_head != 0) {
    throw_user_error("Llama of n_head {} and n_kv_head {}: n_kv_head must divide n_head", c.n_head,
                     c.n_kv_head);
  }
  if (c.n_embd % (2 * c.n_head) != 0) {
    throw_user_error(
        "Llama of n_embd {} and n_head {}: heads must have an even width, for rotary positions "
        "turn pairs; use an n_embd that 2 * n_head divides",
        c.n_embd, c.n_head);
  }
  if (!(c.rope_theta > 1 && c.rms_norm_eps > 0)) {
    throw_user_error("Llama of rope_theta {} and rms_norm_eps {}: use above 1 and above 0",
                     c.rope_theta, c.rms_norm_eps);
  }
}

// Projections into the residual stream begin smaller, for 2 of them add up in each layer.
double residual_deviation(const LlamaConfig& config) {
  return 0.02 / std::sqrt(2.0 * static_cast<double>(config.n_layer));
}

}  // namespace

Llama::Attention::Attention(Module& owner, const LlamaConfig& config)
    : Module(owner, "self_attn"),
      width_(config.n_embd / config.n_head),
      q_proj_(*this, "q_proj", config.n_embd, config.n_embd, 0.02, kNoBias),
      k_proj_(*this, "k_proj", config.n_embd, config.n_kv_head * width_, 0.02, kNoBias),
      v_proj_(*this, "v_proj", config.n_embd, config.n_kv_head * width_, 0.02, kNoBias),
      o_proj_(*this, "o_proj", config.n_embd, config.n_embd, residual_deviation(config), kNoBias) {}

Tensor Llama::Attention::operator()(const Tensor& x, const RotaryEmbedding& rotary) const {
  const trace::Scope scope = enter(x);
  const auto heads = [&](const Tensor& t) {
    return t.reshape({t.dim(0), t.dim(1), t.dim(2) / width_, width_});
  };
  const Tensor q = rotary(heads(q_proj_(x))), k = rotary(heads(k_proj_(x)));
  const Tensor v = heads(v_proj_(x));
  const Tensor mixed = attention(q.permute({0, 2, 1, 3}), k.permute({0, 2, 1, 3}),
                                 v.permute({0, 2, 1, 3}), /*is_causal=*/true);
  return o_proj_(mixed.permute({0, 2, 1, 3}).reshape({x.dim(0), x.dim(1), x.dim(2)}));
}

Llama::FeedForward::FeedForward(Module& owner, const LlamaConfig& config)
    : Module(owner, "mlp"),
      gate_proj_(*this, "gate_proj", config.n_embd, config.n_hidden, 0.02, kNoBias),
      up_proj_(*this, "up_proj", config.n_embd, config.n_hidden, 0.02, kNoBias),
      down_proj_(*this, "down_proj", config.n_hidden, config.n_embd, residual_deviation(config),
                 kNoBias) {}

// SwiGLU (Shazeer, "GLU variants improve transformer", 2020).
Tensor Llama::FeedForward::operator()(const Tensor& x) const {
  const trace::Scope scope = enter(x);
  return down_proj_(silu(gate_proj_(x)) * up_proj_(x));
}

Llama::Layer::Layer(Module& owner, int64_t number, const LlamaConfig& config)
    : Module(owner, std::to_string(number)),
      self_attn_(*this, config),
      mlp_(*this, config),
      input_layernorm_(*this, "input_layernorm", config.n_embd, config.rms_norm_eps),
      post_attention_layernorm_(*this, "post_attention_layernorm", config.n_embd,
                                config.rms_norm_eps) {}

Tensor Llama::Layer::operator()(const Tensor& x, const RotaryEmbedding& rotary) const {
  const trace::Scope scope = enter(x);
  const Tensor y = residual(x + self_attn_(input_layernorm_(x), rotary));
  return residual(y + mlp_(post_attention_layernorm_(y)));
}

Llama::Layers::Layers(Module& owner, const LlamaConfig& config) : Module(owner, "layers") {
  for (int64_t number = 0; number < config.n_layer; ++number) {
    layers_.emplace_back(*this, number, config);
  }
}

Tensor Llama::Layers::operator()(Tensor x, const RotaryEmbedding& rotary) const {
  for (const Layer& layer : layers_) x = layer(x, rotary);
  return x;
}

Llama::Body::Body(Module& owner, const LlamaConfig& config)
    : Module(owner, "model"),
      embed_tokens(*this, "embed_tokens", config.vocab_size, config.n_embd),
      layers(*this, config),
      norm(*this, "norm", config.n_embd, config.rms_norm_eps),
      rotary_emb(*this, "rotary_emb", config.block_size, config.n_embd / config.n_head,
                 config.rope_theta) {}

Llama::Llama(const LlamaConfig& config)
    : config_((check_config(config), config)), model_(*this, config) {
  if (!config.is_tied) {
    lm_head_.emplace(*this, "lm_head", config.n_embd, config.vocab_size, 0.02, kNoBias);
  }
}

Tensor Llama::operator()(const Tensor& tokens) const {
  if (tokens.rank() != 2 || tokens.dim(1) > config_.block_size) {
    throw_user_error("tokens {} for a Llama of block_size {}: use [batch, length], length up to {}",
                     tokens.type().str(), config_.block_size, config_.block_size);
  }
  trace::Trace& trace = tokens.trace();
  const trace::Scope scope = enter(tokens);
  const Tensor embedded = residual(model_.embed_tokens(tokens));
  const Tensor x = model_.norm(model_.layers(embedded, model_.rotary_emb));
  if (lm_head_) return (*lm_head_)(x);
  return matmul(x, trace.read(model_.embed_tokens.weight).transpose(0, 1));
}

Tensor Llama::loss(const Tensor& tokens, const Tensor& targets) const {
  return cross_entropy((*this)(tokens), targets);
}

Tensor Llama::loss(const Tensor& tokens, const Tensor& targets, int64_t ignored) const {
  return cross_entropy((*this)(tokens), targets, ignored);
}

}  // namespace monograph::nn
