#include "frontend/nn/gpt.h"

#include <cmath>

#include "base/error.h"

namespace monograph::nn {
namespace {

void check_config(const GPTConfig& c) {
  if (c.vocab_size < 1 || c.block_size < 1 || c.n_layer < 1 || c.n_head < 1 || c.n_embd < 1) {
    throw_user_error(
        "GPT of vocab_size {}, block_size {}, n_layer {}, n_head {}, n_embd {}: each "
        "must be 1 or more",
        c.vocab_size, c.block_size, c.n_layer, c.n_head, c.n_embd);
  }
  if (c.n_embd % c.n_head != 0) {
    throw_user_error("GPT of n_embd {} and n_head {}: n_head must divide n_embd", c.n_embd,
                     c.n_head);
  }
}

// Projections into the residual stream begin smaller, for 2 of them add up in each layer.
double residual_deviation(const GPTConfig& config) {
  return 0.02 / std::sqrt(2.0 * static_cast<double>(config.n_layer));
}

}  // namespace

GPT::Attention::Attention(Module& owner, const GPTConfig& config)
    : Module(owner, "attn"),
      n_head_(config.n_head),
      c_attn_(*this, "c_attn", config.n_embd, 3 * config.n_embd),
      c_proj_(*this, "c_proj", config.n_embd, config.n_embd, residual_deviation(config)),
      attn_dropout_(*this, "attn_dropout", config.dropout),
      resid_dropout_(*this, "resid_dropout", config.dropout) {}

Tensor GPT::Attention::operator()(const Tensor& x) const {
  const trace::Scope scope = enter(x);
  const int64_t width = x.dim(-1);
  const auto heads = [&](const Tensor& t) {
    return t.reshape({t.dim(0), t.dim(1), n_head_, width / n_head_}).permute({0, 2, 1, 3});
  };
  const std::vector<Tensor> qkv = c_attn_(x).split(width, -1);
  const Tensor mixed = attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]),
                                 /*is_causal=*/true, attn_dropout_.rate(x.trace()));
  return resid_dropout_(c_proj_(mixed.permute({0, 2, 1, 3}).reshape({x.dim(0), x.dim(1), width})));
}

GPT::FeedForward::FeedForward(Module& owner, const GPTConfig& config)
    : Module(owner, "mlp"),
      c_fc_(*this, "c_fc", config.n_embd, 4 * config.n_embd),
      c_proj_(*this, "c_proj", 4 * config.n_embd, config.n_embd, residual_deviation(config)),
      dropout_(*this, "dropout", config.dropout) {}

Tensor GPT::FeedForward::operator()(const Tensor& x) const {
  const trace::Scope scope = enter(x);
  return dropout_(c_proj_(gelu(c_fc_(x), trace::Gelu::kTanh)));
}

GPT::Block::Block(Module& owner, int64_t layer, const GPTConfig& config)
    : Module(owner, std::to_string(layer)),
      ln_1_(*this, "ln_1", config.n_embd),
      attn_(*this, config),
      ln_2_(*this, "ln_2", config.n_embd),
      mlp_(*this, config) {}

Tensor GPT::Block::operator()(const Tensor& x) const {
  const trace::Scope scope = enter(x);
  const Tensor y = residual(x + attn_(ln_1_(x)));
  return residual(y + mlp_(ln_2_(y)));
}

GPT::Blocks::Blocks(Module& owner, const GPTConfig& config) : Module(owner, "h") {
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    blocks_.emplace_back(*this, layer, config);
  }
}

Tensor GPT::Blocks::operator()(Tensor x) const {
  for (const Block& block : blocks_) x = block(x);
  return x;
}

GPT::GPT(const GPTConfig& config)
    : config_((check_config(config), config)),
      wte_(*this, "wte", config.vocab_size, config.n_embd),
      wpe_(*this, "wpe", config.block_size, config.n_embd),
      drop_(*this, "drop", config.dropout),
      h_(*this, config),
      ln_f_(*this, "ln_f", config.n_embd) {}

Tensor GPT::operator()(const Tensor& tokens) const {
  if (tokens.rank() != 2 || tokens.dim(1) > config_.block_size) {
    throw_user_error("tokens {} for a GPT of block_size {}: use [batch, length], length up to {}",
                     tokens.type().str(), config_.block_size, config_.block_size);
  }
  trace::Trace& trace = tokens.trace();
  const trace::Scope scope = enter(tokens);
  const Tensor positions = trace.read(wpe_.weight).slice(0, 0, tokens.dim(1));
  const Tensor x = h_(residual(drop_(wte_(tokens) + positions)));
  return matmul(ln_f_(x), trace.read(wte_.weight).transpose(0, 1));
}

Tensor GPT::loss(const Tensor& tokens, const Tensor& targets) const {
  return cross_entropy((*this)(tokens), targets);
}

Tensor GPT::loss(const Tensor& tokens, const Tensor& targets, int64_t ignored) const {
  return cross_entropy((*this)(tokens), targets, ignored);
}

}  // namespace monograph::nn
