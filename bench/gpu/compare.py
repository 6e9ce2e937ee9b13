#!/usr/bin/env python3
"""Times our training step of a language model beside PyTorch's on one GPU and prints a table.

Usage: compare.py --ours PATH [--our-options "..."] [--rival SCRIPT --modes eager,default] [--batch 64]
SCRIPT trains the same model in PyTorch and prints lines "RESULT {json}" (fields mode, B, tok_s,
ms_mean, peak_alloc_gb, first_step_s, loss0, lossN); it takes --mode, --batch. Each program runs
alone, one after the other; lines go to $OUT/compare.jsonl as they come.
"""

import argparse
import json
import os
import subprocess
import sys
import time


def run(command, timeout):
    """The RESULT lines of a program; what it printed last when there are none."""
    start = time.time()
    environment = dict(os.environ, PB_T0=str(start))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment
        )
        text = done.stdout + done.stderr
    except subprocess.TimeoutExpired as expired:
        text = f"{expired.stdout or ''}\nran past {timeout} s"
    results = [json.loads(l[7:]) for l in text.splitlines() if l.startswith("RESULT ")]
    for result in results:
        result["wall_s"] = time.time() - start
        result["process_s"] = result.get("process_s", result.get("proc_to_first_step_s"))
    if not results:
        print(f"no result of {' '.join(command)}:\n{text[-1500:]}", file=sys.stderr)
    rest = [l for l in text.splitlines() if not l.startswith("RESULT ")]
    return results, rest


def row(result):
    """(name, batch, tokens/s, ms, GB, start to first step s, loss) whoever made the line."""
    peak = result.get("peak_gb", result.get("peak_alloc_gb", 0.0))
    return (
        f"{result.get('fw', '?')} {result.get('mode', '')}",
        result.get("B"),
        result.get("tok_s", 0.0),
        result.get("ms", result.get("ms_mean", 0.0)),
        peak,
        result.get("process_s") or 0.0,
        result.get("loss0") or result.get("loss") or 0.0,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True, help="bench_gpu_language")
    parser.add_argument("--our-options", default="", help="more options of --ours")
    parser.add_argument("--our-modes", default="reduce-overhead")
    parser.add_argument("--rival", help="a PyTorch script; none: ours alone")
    parser.add_argument("--modes", default="eager,default,reduce-overhead")
    parser.add_argument("--batch", default="64")
    parser.add_argument("--timeout", type=float, default=150)
    arguments = parser.parse_args()
    commands = []
    for batch in arguments.batch.split(","):
        for mode in arguments.our_modes.split(","):
            options = ["--batch", batch, "--mode", mode, "--table"]
            commands.append([arguments.ours, *options, *arguments.our_options.split()])
        for mode in arguments.modes.split(",") if arguments.rival else []:
            commands.append([sys.executable, arguments.rival, "--mode", mode, "--batch", batch])
    results = []
    with open(os.path.join(os.environ.get("OUT", "."), "compare.jsonl"), "a") as log:
        for command in commands:
            found, rest = run(command, arguments.timeout)
            if command[0] == arguments.ours:
                print("\n".join(rest))
            for result in found:
                log.write(json.dumps(result) + "\n")
                log.flush()
            results += [r for r in found if r.get("data", "uniform") == "uniform"]
    print(f"{'program':<28}{'B':>4}{'tokens/s':>11}{'ms':>9}{'GB':>7}{'first s':>9}{'loss 0':>9}")
    for name, batch, tokens, ms, peak, first, loss in map(row, results):
        print(
            f"{name:<28}{batch:>4}{tokens:>11,.0f}{ms:>9.2f}{peak:>7.1f}{first:>9.2f}{loss:>9.4f}"
        )
    for batch in sorted({r["B"] for r in results if "B" in r}):
        best = {}
        for result in results:
            if result.get("B") == batch and "tok_s" in result:
                kind = "ours" if result["fw"] == "monograph" else "rival"
                best[kind] = max(best.get(kind, 0), result["tok_s"])
        if len(best) == 2:
            print(f"B {batch}: {best['ours'] / best['rival']:.3f} times the best rival")


if __name__ == "__main__":
    main()
