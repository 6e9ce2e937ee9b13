"""Writes tests/golden/{gpt_nano,gpt_nano_bf16,gpt_tiny,llama_tiny,mlp}.json: training runs in PyTorch
that ours must repeat.

Run with a Python that has torch and numpy: python bench/golden/make_golden.py. The tests read
the JSON files only. Weights and batches come from deterministic.py, so a C++ test makes the same.
"""

import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F

import deterministic
import models

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"

OPTIMIZER = {
    "clip_grad_norm": 1.0,  # gradients times min(1, clip / (norm + 1e-6))
    "betas": [0.9, 0.95],
    "eps": 1e-8,
    "weight_decay": 0.1,  # of tensors with two or more dims only
    "learning_rate": 1e-3,
    "min_learning_rate": 1e-4,
    "warmup_steps": 20,
    "total_steps": 200,  # of the schedule, which may be longer than the run
}


def gpt(**sizes):
    return {"model": "gpt2", "vocab_size": 256, "layer_norm_eps": 1e-5, **sizes}


RUNS = {
    "gpt_nano": gpt(n_layer=4, n_head=4, n_embd=128, block_size=64, batch_size=8, num_steps=200),
    "gpt_nano_bf16": gpt(
        n_layer=4, n_head=4, n_embd=128, block_size=64, batch_size=8, num_steps=50, precision="bf16"
    ),
    "gpt_tiny": gpt(n_layer=2, n_head=2, n_embd=32, block_size=16, batch_size=2, num_steps=10),
    "llama_tiny": {
        "model": "llama",
        "vocab_size": 256,
        "n_layer": 2,
        "n_head": 4,
        "n_kv_head": 2,
        "n_embd": 32,
        "n_hidden": 88,
        "block_size": 24,
        "batch_size": 4,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "is_tied": False,
        "num_steps": 50,
    },
    "mlp": {
        "model": "mlp",
        "vocab_size": 256,
        "n_embd": 32,
        "n_hidden": 256,
        "block_size": 16,
        "batch_size": 32,
        "num_steps": 50,
    },
}


def learning_rate(step):
    o = OPTIMIZER
    if step < o["warmup_steps"]:
        return o["learning_rate"] * (step + 1) / o["warmup_steps"]
    done = (step - o["warmup_steps"]) / (o["total_steps"] - o["warmup_steps"])
    span = o["learning_rate"] - o["min_learning_rate"]
    return o["min_learning_rate"] + 0.5 * span * (1 + math.cos(math.pi * done))


def batch(text, config, step):
    """x [B, T] and y: for mlp [B], the byte that follows; else [B, T], shifted by one byte."""
    window = config["block_size"]
    starts = deterministic.offsets(step, config["batch_size"], len(text), window)
    rows = torch.from_numpy(np.stack([text[s : s + window + 1] for s in starts]).astype(np.int64))
    return rows[:, :-1], (rows[:, -1] if config["model"] == "mlp" else rows[:, 1:])


def norms(tensors):
    return {name: t.double().norm().item() for name, t in tensors.items()}


def train(config, text, dtype, autocast=False):
    """Runs the whole training; returns what the golden file records, as Python floats. With autocast,
    products compute in bfloat16 on float32 parameters."""
    is_mlp = config["model"] == "mlp"
    parameters_of, logits_of = models.FAMILIES[config["model"]]
    shapes = list(parameters_of(config))
    parameters = {
        name: torch.from_numpy(deterministic.parameter(name, shape, k)).to(dtype).requires_grad_()
        for k, (name, shape) in enumerate(shapes)
    }
    groups = [
        {
            "params": [p for p in parameters.values() if p.dim() >= 2],
            "weight_decay": OPTIMIZER["weight_decay"],
        },
        {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        groups, lr=0.0, betas=OPTIMIZER["betas"], eps=OPTIMIZER["eps"], foreach=False
    )
    out = {"losses": [], "gradient_norms": [], "parameter_norms": {}}
    for step in range(config["num_steps"]):
        x, y = batch(text, config, step)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = logits_of(parameters, config, x)
            loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step == 0:
            # mlp: rows 0 and 1. Others: row 0, positions 0 and 1.
            out["logits"] = (logits[:2] if is_mlp else logits[0, :2]).tolist()
            out["parameter_gradient_norms"] = norms({n: p.grad for n, p in parameters.items()})
        norm = torch.nn.utils.clip_grad_norm_(
            parameters.values(), OPTIMIZER["clip_grad_norm"], foreach=False
        )
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        out["losses"].append(loss.item())
        out["gradient_norms"].append(norm.item())
        if step + 1 in (1, config["num_steps"]):
            out["parameter_norms"][f"after_{step + 1}_steps"] = norms(
                {n: p.detach() for n, p in parameters.items()}
            )
    out["parameters"] = [{"name": n, "shape": list(s)} for n, s in shapes]
    return out


def shorten(value):
    """Nine significant digits tell every float32 apart."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {k: shorten(v) for k, v in value.items()}
    return [shorten(v) for v in value] if isinstance(value, list) else value


def make(name, text):
    began = time.monotonic()
    config = RUNS[name]
    is_narrow = config.get("precision") == "bf16"
    single = train(config, text, torch.float32, autocast=is_narrow)
    double = train(config, text, torch.float64)
    drift = max(abs(a - b) / b for a, b in zip(single["losses"], double["losses"]))
    kind = "bfloat16 autocast" if is_narrow else "float32"
    record = {
        "what": f"bench/golden/make_golden.py wrote this: {kind} training in PyTorch",
        "torch_version": torch.__version__,
        "text": "text.txt",
        "config": config,
        "optimizer": OPTIMIZER,
        "learning_rates": [learning_rate(s) for s in range(config["num_steps"])],
        # To check the generator before anything else.
        "generator": {
            "mix_0_0": int(deterministic.mix(0, 0)),
            "mix_12345_7": int(deterministic.mix(12345, 7)),
            "offsets_of_step_1": deterministic.offsets(
                1, config["batch_size"], len(text), config["block_size"]
            ).tolist(),
        },
        **single,
        "losses_float64": double["losses"],
        "gradient_norms_float64": double["gradient_norms"],
        "largest_relative_drift_from_float64": drift,
    }
    path = GOLDEN / f"{name}.json"
    body = ",\n".join(f" {json.dumps(k)}: {json.dumps(shorten(v))}" for k, v in record.items())
    path.write_text("{\n" + body + "\n}\n")
    print(
        f"{name}: loss {single['losses'][0]:.4f} -> {single['losses'][-1]:.4f}, "
        f"drift from float64 {drift:.1e}, "
        f"{path.stat().st_size} bytes, {time.monotonic() - began:.1f} s"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="*", default=list(RUNS), help=f"which of {', '.join(RUNS)} (default: all)"
    )
    args = parser.parse_args()
    torch.set_num_threads(2)
    text = np.frombuffer((GOLDEN / "text.txt").read_bytes(), np.uint8)
    for name in args.runs:
        make(name, text)


if __name__ == "__main__":
    main()
