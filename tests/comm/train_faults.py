#!/usr/bin/env python3
"""Kills or stops a random rank of short training jobs of two ranks: as they start, compile and agree, train, write
checkpoints and end. Each job must end in time with a status that is not 0, name the rank and leave no process
behind; the newest checkpoint must then load.

Usage: train_faults.py MONOGRAPH TEXT [NUM_FAULTS [SEED]]
"""

import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import faults

NUM_STEPS = 60
MODEL = "train gpt-nano --layers 1 --embd 32 --block 16 --batch 4 --eval-every 0 --eval-batches 1 --sample 4".split()


def train_command(text, folder, every):
    return [
        *MODEL,
        *["--data", text, "--steps", str(NUM_STEPS)],
        *["--checkpoint-dir", f"{folder}/checkpoints", "--checkpoint-every", str(every)],
    ]


def wait_for(condition, job):
    """Until it holds or the job has ended; how long that took."""
    begin = time.monotonic()
    while job.poll() is None and not condition():
        time.sleep(0.001)
    return time.monotonic() - begin


class Moment:
    """When to strike: a point of the job's life and a delay after it."""

    def __init__(self, chooser, folder, seconds):
        self.name = chooser.choice(["start", "some time", "checkpoint", "last step", "report"])
        self.folder = pathlib.Path(folder)
        longest = {"start": 0.2, "some time": seconds, "checkpoint": 0.01}.get(self.name, 0.1)
        self.delay = longest * chooser.random()

    def has_come(self):
        log = self.folder / "logs/rank_0.log"
        if self.name == "checkpoint":
            return any((self.folder / "checkpoints").glob("*.partial*"))
        words = {"last step": f"step {NUM_STEPS}/{NUM_STEPS}", "report": "exchange over"}.get(self.name)
        return words is None or (log.exists() and words in log.read_text())

    def wait(self, job):
        wait_for(self.has_come, job)
        time.sleep(self.delay)


def resume_problem(monograph, text, folder):
    """A run on one rank that goes on from what the job left."""
    manifests = [path.stem for path in pathlib.Path(folder, "checkpoints").glob("step-*.json")]
    newest = max((int(name.partition("-")[2]) for name in manifests), default=0)
    run = subprocess.run(
        [monograph, *train_command(text, folder, 0), "--resume"],
        capture_output=True,
        text=True,
        timeout=faults.LIMIT_S,
        check=False,
    )
    words = f"from step {newest}" if newest else "no checkpoint yet"
    if run.returncode != 0 or words not in run.stdout:
        return f"does not resume ({words}):\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
    return None


def run_one(chooser, monograph, text, folder, seconds):
    """The problem with one job, or None; what was done; whether the fault was in time."""
    victim = chooser.randrange(2)
    fault = chooser.choice([signal.SIGKILL, signal.SIGSTOP])
    moment = Moment(chooser, folder, seconds)
    transport = chooser.choice(["auto", "gloo", "shared_memory"])
    done = f"{fault.name} to rank {victim} ({transport}) at {moment.name} + {moment.delay:.3f} s"
    command = [monograph, "run", "--nproc-per-node", "2", "--timeout", str(faults.TIMEOUT_S)]
    command += ["--log-dir", f"{folder}/logs", "--", *train_command(text, folder, chooser.choice([2, 5]))]
    with open(f"{folder}/output", "w+", encoding="utf-8") as output:
        job = subprocess.Popen(
            command, env=dict(os.environ, MONOGRAPH_COMM=transport), stdout=output, stderr=subprocess.STDOUT
        )
        pid = faults.pid_of(folder, victim)
        moment.wait(job)
        try:
            os.kill(pid, fault)
            job.wait(timeout=faults.LIMIT_S)
        except ProcessLookupError:
            job.wait(timeout=faults.LIMIT_S)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()
            return f"did not end within {faults.LIMIT_S} s:\n{pathlib.Path(output.name).read_text()[-3000:]}", done, True
        said = pathlib.Path(output.name).read_text(encoding="utf-8")
    if left := faults.processes(folder):
        return f"left processes {left}", done, True
    is_in_time = job.returncode != 0
    problem = faults.naming_problem(job.returncode, said, victim) if is_in_time else None
    if not is_in_time and "exchange over" not in said:
        problem = f"status 0 without the report:\n{said[-3000:]}"
    return problem or resume_problem(monograph, text, folder), done, is_in_time


def main():
    monograph, text = (os.path.abspath(word) for word in sys.argv[1:3])
    num_faults = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    chooser = random.Random(seed)
    counts = collections.Counter()
    begin = time.monotonic()
    seconds = 3.0
    for number in range(num_faults):
        with tempfile.TemporaryDirectory() as folder:
            problem, done, is_in_time = run_one(chooser, monograph, text, folder, seconds)
        counts["bad"] += problem is not None
        counts["late"] += not is_in_time
        if problem:
            print(f"fault {number} (seed {seed}): {done}: {problem}", flush=True)
    took = time.monotonic() - begin
    print(
        f"{num_faults} faults ({counts['late']} after the end), {counts['bad']} not handled right, "
        f"{took:.0f} s (seed {seed})"
    )
    sys.exit(1 if counts["bad"] else 0)


if __name__ == "__main__":
    main()
