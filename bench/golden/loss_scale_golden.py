"""Writes tests/golden/loss_scale.json: a run with torch.amp.GradScaler, whose gradients overflow.

Run with a Python that has torch: python bench/golden/loss_scale_golden.py. The test reads the JSON
file only, and makes the same inputs.
"""

import json
import pathlib

import torch

CONFIG = {
    "initial": 2.0**127,
    "growth": 2.0,
    "backoff": 0.5,
    "growth_interval": 4,
    "learning_rate": 0.05,
    "betas": [0.9, 0.95],
    "weight_decay": 0.1,
    "max_norm": 1.0,
    "num_steps": 24,
}
ROWS, INPUTS, OUTPUTS = 8, 4, 3


def table(rows, columns, first):
    values = [((7 * i * i + 3 * i + first) % 11 - 5) / 4 for i in range(rows * columns)]
    return torch.tensor(values).view(rows, columns)


def main():
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(table(INPUTS, OUTPUTS, 2))
    bias = torch.nn.Parameter(torch.zeros(OUTPUTS))
    groups = [{"params": [weight]}, {"params": [bias], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(
        groups,
        lr=CONFIG["learning_rate"],
        betas=tuple(CONFIG["betas"]),
        weight_decay=CONFIG["weight_decay"],
    )
    scaler = torch.amp.GradScaler(
        "cpu",
        init_scale=CONFIG["initial"],
        growth_factor=CONFIG["growth"],
        backoff_factor=CONFIG["backoff"],
        growth_interval=CONFIG["growth_interval"],
    )
    losses, scales = [], []
    for step in range(CONFIG["num_steps"]):
        x, y = table(ROWS, INPUTS, step), table(ROWS, OUTPUTS, 5 * step + 1)
        loss = ((x @ weight + bias - y) ** 2).sum()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_([weight, bias], CONFIG["max_norm"])
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    run = {"config": CONFIG, "torch": torch.__version__, "losses": losses, "scales": scales}
    run |= {"weight": weight.flatten().tolist(), "bias": bias.tolist()}
    path = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "loss_scale.json"
    path.write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
