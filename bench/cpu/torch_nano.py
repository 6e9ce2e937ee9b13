"""Times the gpt-nano training step of bench/golden in PyTorch on the CPU: eager, and torch.compile.

Run with a Python that has torch and numpy: python bench/cpu/torch_nano.py [--batch 8] [--length 64]
Prints one JSON line a mode: tokens_per_second from the median step, and the first step's seconds
(compilation). The model here is the fast form (fused attention, addmm), not the golden one; its
first loss is compared with the plain form's, so that both are the same computation.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

ROUND = 5  # steps of a mode before the next mode's turn
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "golden"))
import deterministic
import models


def fast_logits(p, c, x):
    """models.gpt_logits with addmm and fused attention, as a PyTorch user would write it."""
    d, heads = c["n_embd"], c["n_head"]
    batch, length = x.shape

    def linear(name, t):
        return torch.addmm(p[name + ".bias"], t.view(-1, t.shape[-1]), p[name + ".weight"])

    def norm(name, t):
        return F.layer_norm(t, (d,), p[name + ".weight"], p[name + ".bias"], c["layer_norm_eps"])

    hidden = F.embedding(x, p["wte.weight"]) + p["wpe.weight"][:length]
    for layer in range(c["n_layer"]):
        h = f"h.{layer}."
        qkv = linear(h + "attn.c_attn", norm(h + "ln_1", hidden))
        qkv = qkv.view(batch, length, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(batch, length, d)
        hidden = hidden + linear(h + "attn.c_proj", mixed).view_as(hidden)
        inner = F.gelu(linear(h + "mlp.c_fc", norm(h + "ln_2", hidden)), approximate="tanh")
        hidden = hidden + linear(h + "mlp.c_proj", inner).view_as(hidden)
    return F.linear(norm("ln_f", hidden), p["wte.weight"])


def loss_of(logits_of, p, c, x, y):
    return F.cross_entropy(logits_of(p, c, x).flatten(0, 1), y.flatten())


def make_parameters(config):
    return {
        name: torch.from_numpy(deterministic.parameter(name, shape, k)).requires_grad_()
        for k, (name, shape) in enumerate(models.gpt_parameters(config))
    }


def make_batches(config, text, count):
    window = config["block_size"]
    for step in range(count):
        starts = deterministic.offsets(step, config["batch_size"], len(text), window)
        rows = np.stack([text[s : s + window + 1] for s in starts]).astype(np.int64)
        rows = torch.from_numpy(rows)
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


class Trainer:
    """A model with its optimizer, and the seconds and loss of each step so far."""

    def __init__(self, mode, config, batches, fused_adamw):
        self.mode, self.batches = mode, batches
        self.parameters = make_parameters(config)
        decay = [p for p in self.parameters.values() if p.dim() >= 2]
        rest = [p for p in self.parameters.values() if p.dim() < 2]
        groups = [{"params": decay}, {"params": rest, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(
            groups, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=fused_adamw or None
        )

        def forward(x, y):
            return loss_of(fast_logits, self.parameters, config, x, y)

        self.forward = torch.compile(forward, dynamic=False) if mode == "compile" else forward
        self.seconds, self.losses = [], []

    def step(self):
        x, y = self.batches[len(self.losses) % len(self.batches)]
        began = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), 1.0)
        self.optimizer.step()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - began)


def report(trainer, config, warmup, plain_loss):
    first_loss, seconds = trainer.losses[0], trainer.seconds[1 + warmup :]
    if not math.isclose(first_loss, plain_loss, rel_tol=1e-5):
        raise SystemExit(f"{trainer.mode}: first loss {first_loss}, plain model's {plain_loss}")
    step = statistics.median(seconds)
    record = {
        "what": "torch_nano",
        "mode": trainer.mode,
        "torch_version": torch.__version__,
        "num_threads": torch.get_num_threads(),
        "batch_size": config["batch_size"],
        "block_size": config["block_size"],
        "num_steps": len(seconds),
        "tokens_per_second": round(config["batch_size"] * config["block_size"] / step, 1),
        "step_ms_median": round(step * 1e3, 3),
        "step_ms_min": round(min(seconds) * 1e3, 3),
        "first_step_s": round(trainer.seconds[0], 3),
        "first_loss": round(first_loss, 6),
        "last_loss": round(trainer.losses[-1], 6),
    }
    print(json.dumps(record), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8, help="rows in a step")
    parser.add_argument("--length", type=int, default=64, help="bytes in a row")
    parser.add_argument("--steps", type=int, default=50, help="steps to time")
    parser.add_argument("--warmup", type=int, default=10, help="steps before that")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fused-adamw", action="store_true", help="torch's fused CPU AdamW")
    parser.add_argument("--modes", nargs="+", default=["eager", "compile"])
    args = parser.parse_args()
    if set(args.modes) - {"eager", "compile"}:
        parser.error(f"unknown mode in {args.modes}: use eager, compile")
    torch.set_num_threads(args.threads)
    config = {"vocab_size": 256, "n_layer": 4, "n_head": 4, "n_embd": 128, "layer_norm_eps": 1e-5}
    config |= {"batch_size": args.batch, "block_size": args.length}
    text = np.frombuffer((ROOT / "tests" / "golden" / "text.txt").read_bytes(), np.uint8)
    if args.batch < 1 or not 0 < args.length < len(text) - 1:
        parser.error(f"batch must be at least 1, length between 1 and {len(text) - 2}")
    batches = list(make_batches(config, text, 8))
    plain_loss = loss_of(models.gpt_logits, make_parameters(config), config, *batches[0]).item()
    trainers = [Trainer(mode, config, batches, args.fused_adamw) for mode in args.modes]
    for trainer in trainers:
        for _ in range(1 + args.warmup):
            trainer.step()
    for first in range(
        0, args.steps, ROUND
    ):  # in turn, so that a busy moment of the machine hits all
        for trainer in trainers:
            for _ in range(min(ROUND, args.steps - first)):
                trainer.step()
    for trainer in trainers:
        report(trainer, config, args.warmup, plain_loss)


if __name__ == "__main__":
    main()
