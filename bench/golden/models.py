"""The models of the golden files, as plain functions of a {name: tensor} dictionary."""

import math

import torch
import torch.nn.functional as F


def gpt_parameters(c):
    d = c["n_embd"]
    yield "wte.weight", (c["vocab_size"], d)
    yield "wpe.weight", (c["block_size"], d)
    for layer in range(c["n_layer"]):
        h = f"h.{layer}."
        yield h + "ln_1.weight", (d,)
        yield h + "ln_1.bias", (d,)
        yield h + "attn.c_attn.weight", (d, 3 * d)
        yield h + "attn.c_attn.bias", (3 * d,)
        yield h + "attn.c_proj.weight", (d, d)
        yield h + "attn.c_proj.bias", (d,)
        yield h + "ln_2.weight", (d,)
        yield h + "ln_2.bias", (d,)
        yield h + "mlp.c_fc.weight", (d, 4 * d)
        yield h + "mlp.c_fc.bias", (4 * d,)
        yield h + "mlp.c_proj.weight", (4 * d, d)
        yield h + "mlp.c_proj.bias", (d,)
    yield "ln_f.weight", (d,)
    yield "ln_f.bias", (d,)


def gpt_logits(p, c, x):
    """x: int64 [B, T] -> logits [B, T, vocab]."""

    def norm(name, t):
        return F.layer_norm(
            t, t.shape[-1:], p[name + ".weight"], p[name + ".bias"], c["layer_norm_eps"]
        )

    def linear(name, t):
        return t @ p[name + ".weight"] + p[name + ".bias"]

    batch, length = x.shape
    heads, width = c["n_head"], c["n_embd"] // c["n_head"]
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    hidden = p["wte.weight"][x] + p["wpe.weight"][:length]
    for layer in range(c["n_layer"]):
        h = f"h.{layer}."
        q, k, v = linear(h + "attn.c_attn", norm(h + "ln_1", hidden)).split(c["n_embd"], dim=-1)
        q, k, v = (t.view(batch, length, heads, width).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(width)
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, -1)
        hidden = hidden + linear(h + "attn.c_proj", mixed)
        inner = F.gelu(linear(h + "mlp.c_fc", norm(h + "ln_2", hidden)), approximate="tanh")
        hidden = hidden + linear(h + "mlp.c_proj", inner)
    return norm("ln_f", hidden) @ p["wte.weight"].T


def mlp_parameters(c):
    yield "wte.weight", (c["vocab_size"], c["n_embd"])
    sizes = [c["block_size"] * c["n_embd"], c["n_hidden"], c["n_hidden"], c["vocab_size"]]
    for layer in (1, 2, 3):
        yield f"fc{layer}.weight", (sizes[layer - 1], sizes[layer])
        yield f"fc{layer}.bias", (sizes[layer],)


def mlp_logits(p, c, x):
    """x: int64 [B, block_size] -> logits [B, vocab] of the byte that follows."""
    hidden = p["wte.weight"][x].flatten(1)
    hidden = F.gelu(hidden @ p["fc1.weight"] + p["fc1.bias"], approximate="tanh")
    hidden = F.gelu(hidden @ p["fc2.weight"] + p["fc2.bias"], approximate="tanh")
    return hidden @ p["fc3.weight"] + p["fc3.bias"]


def llama_parameters(c):
    """Weights are [in, out]."""
    d, kv = c["n_embd"], c["n_embd"] // c["n_head"] * c["n_kv_head"]
    yield "model.embed_tokens.weight", (c["vocab_size"], d)
    for layer in range(c["n_layer"]):
        h = f"model.layers.{layer}."
        yield h + "self_attn.q_proj.weight", (d, d)
        yield h + "self_attn.k_proj.weight", (d, kv)
        yield h + "self_attn.v_proj.weight", (d, kv)
        yield h + "self_attn.o_proj.weight", (d, d)
        yield h + "mlp.gate_proj.weight", (d, c["n_hidden"])
        yield h + "mlp.up_proj.weight", (d, c["n_hidden"])
        yield h + "mlp.down_proj.weight", (c["n_hidden"], d)
        yield h + "input_layernorm.weight", (d,)
        yield h + "post_attention_layernorm.weight", (d,)
    yield "model.norm.weight", (d,)
    if not c["is_tied"]:
        yield "lm_head.weight", (d, c["vocab_size"])


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def llama_logits(p, c, x):
    """x: int64 [B, T] -> logits [B, T, vocab]. As Hugging Face's modeling_llama.py computes them."""

    def norm(name, t):
        return F.rms_norm(t, t.shape[-1:], p[name + ".weight"], c["rms_norm_eps"])

    batch, length = x.shape
    width = c["n_embd"] // c["n_head"]
    group = c["n_head"] // c["n_kv_head"]
    inverse = 1.0 / c["rope_theta"] ** (torch.arange(0, width, 2).double() / width)
    angle = torch.outer(torch.arange(length).double(), inverse)
    angle = torch.cat([angle, angle], dim=-1)
    hidden = p["model.embed_tokens.weight"][x]
    cosine, sine = angle.cos().to(hidden.dtype), angle.sin().to(hidden.dtype)
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    for layer in range(c["n_layer"]):
        h = f"model.layers.{layer}."
        normed = norm(h + "input_layernorm", hidden)
        q, k, v = (
            (normed @ p[h + f"self_attn.{part}_proj.weight"])
            .view(batch, length, -1, width)
            .transpose(1, 2)
            for part in "qkv"
        )
        q, k = (t * cosine + rotate_half(t) * sine for t in (q, k))
        k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(width)
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, -1)
        hidden = hidden + mixed @ p[h + "self_attn.o_proj.weight"]
        normed = norm(h + "post_attention_layernorm", hidden)
        inner = F.silu(normed @ p[h + "mlp.gate_proj.weight"]) * (normed @ p[h + "mlp.up_proj.weight"])
        hidden = hidden + inner @ p[h + "mlp.down_proj.weight"]
    hidden = norm("model.norm", hidden)
    head = p["model.embed_tokens.weight"].T if c["is_tied"] else p["lm_head.weight"]
    return hidden @ head


# By the config's "model": (parameters, logits).
FAMILIES = {
    "gpt2": (gpt_parameters, gpt_logits),
    "llama": (llama_parameters, llama_logits),
    "mlp": (mlp_parameters, mlp_logits),
}
