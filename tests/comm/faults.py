#!/usr/bin/env python3
"""Kills or stops a random rank of short runs, at random times, from the first moment on. Each run must
end in time with a status that is not 0, name the rank, and leave no process behind.

Usage: faults.py MONOGRAPH ALL_REDUCE_LOOP [NUM_FAULTS [SEED]]
"""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid

TIMEOUT_S = 8  # of a collective
LIMIT_S = 80  # of a run: several timeouts one after the other, on a busy machine


def processes(tag):
    """{pid: rank} of the live processes that have the tag in their command line."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if tag.encode() not in (folder / "cmdline").read_bytes():
                continue
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if state in "ZX":
            continue
        ranks = [int(v[5:]) for v in variables if v.startswith(b"RANK=")]
        found[int(folder.name)] = ranks[0] if ranks else None
    return found


def pid_of(tag, rank):
    for _ in range(2000):
        for pid, its_rank in processes(tag).items():
            if its_rank == rank:
                return pid
        time.sleep(0.005)
    raise RuntimeError(f"rank {rank} does not start")


def naming_problem(status, output, victim):
    """What is wrong with what the launcher says at the end, or None."""
    named = re.search(r"^run +failed: .*", output, re.MULTILINE)
    if status == 0 or not named:
        return f"status {status}, and no rank is named:\n{output[-3000:]}"
    ranks = re.search(r"\branks? (\d+(?:, \d+)*)", named.group())
    if not ranks or ranks.group(1) != str(victim):
        return f"named another rank: {named.group()}\n{output[-3000:]}"
    return None


def run_one(chooser, monograph, loop, log_directory):
    """The problem with one run, or None; and what was done."""
    size = chooser.choice([2, 3, 4])
    victim = chooser.randrange(size)
    fault = chooser.choice([signal.SIGKILL, signal.SIGSTOP])
    transport = chooser.choice(["auto", "gloo", "shared_memory"])
    elements = chooser.choice([1, 1000, 300_000])
    delay = chooser.choice([0.0, 0.05, 0.2, 0.5, 1.0]) * chooser.random()
    done = f"{fault.name} to rank {victim} of {size} ({transport}, {elements}) after {delay:.3f} s"
    tag = f"tag={uuid.uuid4()}"
    command = [monograph, "run", "--nproc-per-node", str(size), "--timeout", str(TIMEOUT_S)]
    command += ["--log-dir", log_directory, "--", loop, "100000000", f"size={elements}", tag]
    environment = dict(os.environ, MONOGRAPH_COMM=transport)
    job = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        pid = pid_of(tag, victim)
        time.sleep(delay)
        os.kill(pid, fault)
        output, _ = job.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        job.kill()
        output, _ = job.communicate()
        return f"did not end within {LIMIT_S} s:\n{output[-3000:]}", done
    left = processes(tag)
    if left:
        return f"left processes {left}", done
    return naming_problem(job.returncode, output, victim), done


def main():
    monograph, loop = sys.argv[1:3]
    num_faults = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    chooser = random.Random(seed)
    num_bad = 0
    begin = time.monotonic()
    for number in range(num_faults):
        with tempfile.TemporaryDirectory() as log_directory:
            problem, done = run_one(chooser, monograph, loop, log_directory)
        if problem:
            num_bad += 1
            print(f"fault {number} (seed {seed}): {done}: {problem}", flush=True)
    took = time.monotonic() - begin
    print(f"{num_faults} faults, {num_bad} not handled right, {took:.0f} s (seed {seed})")
    sys.exit(1 if num_bad else 0)


if __name__ == "__main__":
    main()
