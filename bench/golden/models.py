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
