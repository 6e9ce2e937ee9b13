"""Whole training steps of GPT-2 on the CPU, ours beside PyTorch eager and torch.compile, in one run.

    ninja -C build bench_cpu_whole_step
    python bench/cpu/whole_step.py [--models gpt-nano gpt2-124m] [--precisions f32 bf16]
                                   [--also moments=bf16] [--json FILE]

Run with a Python that has torch and numpy. All start from the same weights and see the same
batches; their losses are compared, and the run fails if they differ by more than LOSS_LIMITS. The steps are timed in turns of one step each, so that a busy
moment of the machine hits all. PyTorch is the form that a user of it would write: addmm, fused
AdamW, clip_grad_norm_; attention by scaled_dot_product_attention, in bf16 written out (its fused
backward is slow there on CPUs; --bf16-attention sdpa explicit runs both). Time is split into matrix products and the rest, ours by the
times of the Program's steps, theirs by torch.profiler. Peak tensor bytes are ours by the memory
plan, theirs by the profiler's record of allocations, on top of parameters and moments; "beside" leaves
those out. "cpu s" is the processor time of all threads, which other processes disturb less than the
clock. Each --also OPTION=VALUE,... adds a row of our step with these options (moments=bf16, which
PyTorch's fused AdamW has not; memory_budget=0.9,recompute=products). Last comes the table of our
kernels: time, bytes, least bytes, share of copy bandwidth.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "golden"))
import deterministic
import models

LEARNING_RATE = 3e-4
CONFIGS = {
    "gpt-nano": dict(n_layer=6, n_head=6, n_embd=384, block_size=256, batch_size=8, vocab_size=256),
    "gpt2-124m": dict(
        n_layer=12, n_head=12, n_embd=768, block_size=256, batch_size=4, vocab_size=50304
    ),
}
LOSS_LIMITS = {"f32": 1e-3, "bf16": 2e-2}  # relative, at every step
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "mkldnn::", "aten::linear")


def explicit_attention(q, k, v):
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    length = q.shape[-2]
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1) @ v


def fused_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def logits_of(p, c, x, attention):
    d, heads = c["n_embd"], c["n_head"]
    batch, length = x.shape

    def linear(name, t):
        return torch.addmm(p[name + ".bias"], t.view(-1, t.shape[-1]), p[name + ".weight"])

    def norm(name, t):
        return F.layer_norm(t, (d,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    hidden = F.embedding(x, p["wte.weight"]) + p["wpe.weight"][:length]
    for layer in range(c["n_layer"]):
        h = f"h.{layer}."
        qkv = linear(h + "attn.c_attn", norm(h + "ln_1", hidden)).view(batch, length, 3 * d)
        q, k, v = (
            t.view(batch, length, heads, d // heads).transpose(1, 2) for t in qkv.split(d, dim=-1)
        )
        mixed = attention(q, k, v).transpose(1, 2).reshape(batch, length, d)
        hidden = hidden + linear(h + "attn.c_proj", mixed).view_as(hidden)
        inner = F.gelu(linear(h + "mlp.c_fc", norm(h + "ln_2", hidden)), approximate="tanh")
        hidden = hidden + linear(h + "mlp.c_proj", inner).view_as(hidden)
    return F.linear(norm("ln_f", hidden), p["wte.weight"])


def parameters_of(config):
    return {
        name: torch.from_numpy(deterministic.parameter(name, shape, k)).requires_grad_()
        for k, (name, shape) in enumerate(models.gpt_parameters(config))
    }


def batches_of(config, count):
    """Bytes of the golden text, spread over the vocabulary."""
    text = np.frombuffer((ROOT / "tests/golden/text.txt").read_bytes(), np.uint8)
    spread = max(1, config["vocab_size"] // 256)
    window = config["block_size"]
    for step in range(count):
        starts = deterministic.offsets(step, config["batch_size"], len(text), window)
        rows = np.stack([text[s : s + window + 1] for s in starts]).astype(np.int64) * spread
        rows = torch.from_numpy(rows)
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


class Torch:
    def __init__(self, name, config, precision, compiled, attention):
        self.name, self.seconds, self.cpu_seconds, self.losses = name, [], [], []
        self.parameters = parameters_of(config)
        groups = [
            {"params": [p for p in self.parameters.values() if p.dim() >= 2]},
            {"params": [p for p in self.parameters.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1, fused=True
        )

        def forward(x, y):
            narrow = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")
            with narrow:
                logits = logits_of(self.parameters, config, x, attention)
                return F.cross_entropy(logits.flatten(0, 1), y.flatten())

        self.forward = torch.compile(forward, dynamic=False) if compiled else forward

    def step(self, x, y):
        began, cpu_began = time.perf_counter(), time.process_time()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), 1.0)
        self.optimizer.step()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - began)
        self.cpu_seconds.append(time.process_time() - cpu_began)

    def report(self, x, y):
        """Share of the products in a profiled step, and the peak of tensor bytes."""
        self.optimizer.zero_grad(set_to_none=True)
        kept = 3 * sum(p.nbytes for p in self.parameters.values())  # and two moments
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile:
            began = time.perf_counter()
            self.step(x, y)
            profiled_s = time.perf_counter() - began
        for each in (self.seconds, self.cpu_seconds, self.losses):
            each.pop()
        products = attention = 0
        for event in profile.key_averages():
            if event.key.startswith(PRODUCTS):
                products += event.self_cpu_time_total
            elif "scaled_dot_product" in event.key:
                attention += event.self_cpu_time_total
        allocated = peak = 0
        events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        for event in sorted(events, key=lambda e: e.start_ns()):
            allocated += event.nbytes()
            peak = max(peak, allocated)
        step = statistics.median(self.seconds[2:])
        share = step / profiled_s / 1e6  # of the profiled step's microseconds
        return {
            "compile_s": self.seconds[0] - step,
            "products_s": products * share,
            "attention_s": attention * share,
            "rest_s": step - (products + attention) * share,
            "peak_bytes": kept + peak,
        }


class Ours:
    def __init__(self, binary, config, precision, cache, options=(), also=""):
        self.name = f"ours, {also}" if also else "ours"
        self.seconds, self.cpu_seconds, self.losses = [], [], []
        sizes = ["n_layer", "n_head", "n_embd", "block_size", "batch_size", "vocab_size"]
        command = [binary, *(str(config[s]) for s in sizes), str(LEARNING_RATE)]
        command += ["precision=" + precision, *options, *filter(None, also.split(","))]
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def step(self, x, y):
        answer = self.ask("batch " + " ".join(map(str, x.flatten().tolist() + y.flatten().tolist())))
        self.seconds.append(answer["seconds"])
        self.cpu_seconds.append(answer["cpu_seconds"])
        self.losses.append(answer["loss"])

    def report(self, *_):
        return self.ask("report")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compile_twice(binary, config, precision):
    """Seconds to compile with an empty kernel cache, and with a filled one."""
    seconds = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            ours = Ours(binary, config, precision, cache)
            seconds.append(ours.report()["compile_s"])
            ours.close()
    return seconds


def rivals(config, precision, modes, forms):
    attentions = {"sdpa": fused_attention}
    if precision == "bf16":
        attentions["explicit"] = explicit_attention
    for mode in modes:
        for form, attention in attentions.items():
            if form not in forms and precision == "bf16":
                continue
            yield Torch(f"torch {mode} {form}", config, precision, mode == "compile", attention)


def compare(name, precision, args):
    config = CONFIGS[name]
    batches = list(batches_of(config, args.steps + 1))
    cold, warm = (0, 0) if args.uncompiled else compile_twice(args.binary, config, precision)
    # Without a compiler the step runs on kernels compiled ahead (docs/fallback.md).
    options = ["compiler=/no/compiler", "suppress_errors=true"] if args.uncompiled else []
    with contextlib.ExitStack() as stack:
        ours, *others = (
            stack.enter_context(contextlib.closing(
                Ours(args.binary, config, precision, args.cache, options, also)))
            for also in ["", *args.also]
        )
        runners = [ours, *rivals(config, precision, args.modes, args.bf16_attention), *others]
        for x, y in batches[:-1]:
            for runner in runners:
                runner.step(x, y)
        rows = []
        for runner in runners:
            row = {"model": name, "precision": precision, "name": runner.name}
            row |= {"step_s": statistics.median(runner.seconds[2:]), "losses": runner.losses}
            row |= {"cpu_s": statistics.median(runner.cpu_seconds[2:])}
            row |= {"is_ours": isinstance(runner, Ours)}
            rows.append(row | runner.report(*batches[-1]))
        rows[0] |= {"compile_s": cold, "warm_compile_s": warm}
        show(rows, config, precision)
        print(ours.ask("table")["table"], flush=True)
    check_losses(rows, precision)
    return rows


def loss_gap(ours, row):
    return max(abs(a - b) / b for a, b in zip(ours["losses"], row["losses"]))


def check_losses(rows, precision):
    for row in rows[1:]:
        gap = loss_gap(rows[0], row)
        if not gap <= LOSS_LIMITS[precision]:
            sys.exit(f"losses of {row['name']} and ours differ by {gap:.1e}: at most "
                     f"{LOSS_LIMITS[precision]} was expected in {precision}")


def ratios(ours, row, kept):
    if row["is_ours"]:
        return " " * 36
    other, our_other = (r["attention_s"] + r["rest_s"] for r in (row, ours))
    return (f"{ours['step_s'] / row['step_s']:5.2f} {ours['cpu_s'] / row['cpu_s']:5.2f} "
            f"{our_other / other:5.2f} {ours['rest_s'] / row['rest_s']:5.2f} "
            f"{ours['peak_bytes'] / row['peak_bytes']:5.2f} "
            f"{(ours['peak_bytes'] - kept) / (row['peak_bytes'] - kept):6.2f}")


def show(rows, config, precision):
    tokens = config["batch_size"] * config["block_size"]
    ours = rows[0]
    width = max(24, *(len(row["name"]) for row in rows))
    print(f"\n{ours['model']} {precision}, {tokens} tokens a step, torch {torch.__version__}, "
          f"{torch.get_num_threads()} threads; ratios are ours / theirs")
    print(f"{'':{width}} {'step s':>8} {'cpu s':>7} {'tok/s':>7} {'products':>9} {'attention':>9} "
          f"{'rest':>7} {'peak MB':>8} {'compile':>8}   step   cpu other  rest  peak beside  loss gap")
    kept = 3 * sum(math.prod(shape) * 4 for _, shape in models.gpt_parameters(config))
    for row in rows:
        print(f"{row['name']:{width}} {row['step_s']:8.3f} {row['cpu_s']:7.3f} "
              f"{tokens / row['step_s']:7.0f} {row['products_s']:9.3f} {row['attention_s']:9.3f} "
              f"{row['rest_s']:7.3f} {row['peak_bytes'] / 1e6:8.0f} {row['compile_s']:8.2f}  "
              f"{ratios(ours, row, kept)}  {loss_gap(ours, row):.1e}", flush=True)
    theirs = [row for row in rows if not row["is_ours"]]
    for other in (row for row in rows[1:] if row["is_ours"]):
        shares = [f"{other['step_s'] / row['step_s']:.2f} of the step and "
                  f"{other['peak_bytes'] / row['peak_bytes']:.2f} of the peak of {row['name']}"
                  for row in theirs]
        print(f"{other['name']}: {', '.join(shares)}")
    print(f"ours: warm compile {ours['warm_compile_s']:.2f} s, {ours['kernels']} kernels, memory "
          f"{ours['peak_bytes'] / ours['bound_bytes']:.4f} of its bound", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(CONFIGS), choices=list(CONFIGS))
    parser.add_argument("--precisions", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--also", nargs="+", default=[], metavar="OPTION=VALUE,...",
                        help="ours with these options, in a row of its own")
    parser.add_argument("--modes", nargs="*", default=["eager", "compile"])
    parser.add_argument("--bf16-attention", nargs="+", default=["explicit"])
    parser.add_argument("--uncompiled", action="store_true", help="ours without compiled kernels")
    parser.add_argument("--steps", type=int, default=7, help="the first two are not timed")
    parser.add_argument("--binary", default=str(ROOT / "build" / "src" / "bench_cpu_whole_step"))
    parser.add_argument("--cache", default=str(pathlib.Path.home() / ".cache"), help="for kernels")
    parser.add_argument("--json", help="write all figures to this file")
    args = parser.parse_args()
    if args.steps < 3:
        parser.error("--steps: at least 3")
    if shutil.which(args.binary) is None:
        parser.error(f"no {args.binary}: build bench_cpu_whole_step, or give --binary")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    rows = []
    for name in args.models:
        for precision in args.precisions:
            rows += compare(name, precision, args)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
