#!/usr/bin/env python3
"""`monograph trace` beside HTA, and `monograph logs` beside tlparse: the same files in one run, the
answers compared, then seconds, throughput, memory and ratios.

Usage: bench/diagnose/rivals.py --monograph build/bin/monograph --venv VENV [--rounds N]
           --kineto TRACE.json[.gz] --torch-trace LOG
           [--kineto-bytes BYTES] [--log-bytes BYTES]
    VENV holds both rivals from PyPI:
        python3 -m venv VENV && VENV/bin/pip install HolisticTraceAnalysis tlparse
    TRACE and LOG are repeated up to about so many bytes (30 and 100 MB), so that starting a program
    counts for little.
"""

import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# Times are inside the process and without imports: what HTA itself needs for the file.
HTA = """
import sys, time
from hta.trace_analysis import TraceAnalysis
begin = time.time()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
table = analysis.get_comm_comp_overlap(visualize=False)
print("RESULT", time.time() - begin, float(table["comp_comm_overlap_pctg"].iloc[0]))
"""


class Run:
    """One run of a program: output, wall and CPU seconds, peak memory."""

    def __init__(self, command):
        begin = time.perf_counter()
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen(
                [str(c) for c in command], stdout=out, stderr=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(child.pid, 0)
            self.wall = time.perf_counter() - begin
            out.seek(0)
            self.output = out.read().decode(errors="replace")
        self.cpu = usage.ru_utime + usage.ru_stime
        self.peak_mb = usage.ru_maxrss / 1024
        self.status = os.waitstatus_to_exitcode(status)
        self.rival_seconds = None  # as the program itself measured
        self.answer = None


def best(command, rounds, seconds=lambda run: run.wall):
    return min((Run(command) for _ in range(rounds)), key=seconds)


def row(name, size, seconds, run, answer):
    print(f"  {name:<28}{seconds:9.3f} s {size / 1e6 / seconds:9.1f} MB/s"
          f" {size / 1e6 / run.cpu:9.1f} MB/s a core {run.peak_mb:7.0f} MB   {answer}")


def write_longer_trace(path, target, size):
    """The trace's events again and again, each time later and with other correlation numbers."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", errors="surrogateescape") as source:
        text = source.read()
    begin = text.index("[", text.index('"traceEvents"')) + 1
    end = text.index("\n  ],", begin)
    events = text[begin:end]
    times = [float(t) for t in re.findall(r'"ts": ([0-9.]+)', events)]
    typical = sorted(times)[len(times) // 2]
    near = [t for t in times if abs(t - typical) < 1e8]  # some marks stand at time 0
    span = max(near) - min(near) + 1000
    count = max(1, round(size / len(text)))
    with open(target, "w", errors="surrogateescape") as out:
        out.write(text[:begin])
        for i in range(count):
            def later(match, i=i):
                name, number = match[1], match[2]
                if name == "ts":
                    return f'"ts": {float(number) + i * span:.3f}'
                return f'"{name}": {int(number) + i * 10_000_000 if number != "0" else 0}'

            out.write(re.sub(r'"(ts|correlation|External id)": ([0-9.]+)', later, events))
            out.write("," if i + 1 < count else "")
        out.write(text[end:])
    return count


def bench_kineto(arguments, folder):
    trace = folder / "trace_rank_0.json"
    # In a process of its own: a child's peak memory counts what its parent held when it began.
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        work = pool.submit(write_longer_trace, arguments.kineto, trace, arguments.kineto_bytes)
        count = work.result()
    size = trace.stat().st_size
    name = pathlib.Path(arguments.kineto).name
    print(f"\nKineto JSON, {size / 1e6:.1f} MB ({count} times {name})")
    ours = best([arguments.monograph, "trace", "--json", trace], arguments.rounds)
    statistics = json.loads(ours.output)["statistics"]
    key = "overlap_percent_of_communication"
    overlap = next(v for k, v in statistics.items() if k.endswith(key))
    row("monograph trace", size, ours.wall, ours, f"overlap {overlap:.3f} % (all steps)")

    def hta_seconds(run):
        found = re.search(r"RESULT (\S+) (\S+)", run.output)
        if found is None:
            sys.exit(f"HTA gave no result; it said:\n{run.output[-2000:]}")
        run.rival_seconds, run.answer = float(found[1]), float(found[2])
        return run.rival_seconds

    hta = best([arguments.python, "-c", HTA, trace], arguments.rounds, hta_seconds)
    answer = f"overlap {hta.answer:.2f} % (without the last step)"
    row("HTA, without imports", size, hta.rival_seconds, hta, answer)
    row("HTA, whole process", size, hta.wall, hta, "")
    if abs(hta.answer - overlap) > 2:
        sys.exit(f"the answers differ: overlap {overlap} % here, {hta.answer} % by HTA")
    without = hta.rival_seconds / ours.wall
    print(f"  ratio {without:.1f} without imports, {hta.wall / ours.wall:.1f} whole process")


def bench_torch_trace(arguments, folder):
    log = folder / "dedicated_log_torch_trace_rank_0_x.log"
    text = pathlib.Path(arguments.torch_trace).read_bytes()
    count = max(1, arguments.log_bytes // len(text))
    with open(log, "wb") as target:
        for _ in range(count):
            target.write(text)
    size = log.stat().st_size
    name = pathlib.Path(arguments.torch_trace).name
    print(f"\nTORCH_TRACE, {size / 1e6:.1f} MB ({count} times {name})")
    ours = best([arguments.monograph, "logs", "--json", log], arguments.rounds)
    records = json.loads(ours.output)["statistics"]["compiler_records"]
    row("monograph logs", size, ours.wall, ours, f"{records} records")
    command = [arguments.tlparse, log, "-o", folder / "tl_out", "--overwrite", "--no-browser"]
    rival = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    found = re.search(r"ok: (\d+)", rival.stderr + rival.stdout)
    if found is None:
        sys.exit(f"tlparse gave no result; it said:\n{rival.stderr[-2000:]}")
    interned = count * text.count(b'] {"str"')  # tlparse does not count these
    if int(found[1]) + interned != records:
        sys.exit(f"the answers differ: {records} records here, {found[1]} + {interned} by tlparse")
    tlparse = best(command, max(1, arguments.rounds - 1))
    row("tlparse", size, tlparse.wall, tlparse, f"{found[1]} records")
    print(f"  ratio {tlparse.wall / ours.wall:.1f} wall, {tlparse.cpu / ours.cpu:.1f} CPU time")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--monograph", required=True)
    parser.add_argument("--venv", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kineto", required=True)
    parser.add_argument("--torch-trace", required=True)
    parser.add_argument("--kineto-bytes", type=int, default=30_000_000)
    parser.add_argument("--log-bytes", type=int, default=100_000_000)
    arguments = parser.parse_args()
    arguments.python = arguments.venv / "bin/python"
    arguments.tlparse = arguments.venv / "bin/tlparse"
    for program in (arguments.python, arguments.tlparse):
        if not program.exists():
            sys.exit(f"no {program}: python3 -m venv {arguments.venv} && "
                     f"{arguments.venv}/bin/pip install HolisticTraceAnalysis tlparse")
    print(f"best of {arguments.rounds}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        bench_kineto(arguments, pathlib.Path(folder))
        bench_torch_trace(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
