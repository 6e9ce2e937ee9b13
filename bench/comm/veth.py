#!/usr/bin/env python3
"""Two ranks in network namespaces of their own, joined by a veth pair that `tc` slows down: what communication stays
exposed at levels 0, 1 and 2, over TCP. Each level's losses are compared with those of level 0.

Usage, as root: bench/comm/veth.py MONOGRAPH TEXT [--mbit 800] [--steps 60] [--plan dp=2] [TRAIN_OPTION...]
Needs ip and tc (Debian: iproute2). Prints a table; takes about a minute.
"""
import argparse, json, os, secrets, subprocess, sys

HOSTS = [("monograph-a", "va", "10.77.0.1"), ("monograph-b", "vb", "10.77.0.2")]


def call(text, check=True):
    return subprocess.run(text.split(), check=check, capture_output=not check)


def leave():
    for name, _, _ in HOSTS:
        call(f"ip netns del {name}", check=False)


def join(mbit):
    """The rate is that of either direction; the kernel keeps 256 kB, what comes faster waits."""
    for name, _, _ in HOSTS:
        call(f"ip netns add {name}")
    call("ip link add va netns monograph-a type veth peer name vb netns monograph-b")
    for name, link, address in HOSTS:
        inside = f"ip netns exec {name}"
        call(f"{inside} ip addr add {address}/24 dev {link}")
        call(f"{inside} ip link set {link} up")
        call(f"{inside} ip link set lo up")
        call(f"{inside} tc qdisc add dev {link} root tbf rate {mbit}mbit burst 256kb latency 100ms")


def run(args, level):
    token = secrets.token_hex(16)
    ranks = []
    for rank, (name, _, _) in enumerate(HOSTS):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
                           MASTER_ADDR=HOSTS[0][2], MASTER_PORT="29517", MONOGRAPH_JOB_TOKEN=token,
                           MONOGRAPH_COMM="gloo", OMP_NUM_THREADS="1")
        command = ["ip", "netns", "exec", name, args.monograph, "train", "gpt-nano", "--data", args.text, "--json",
                   "--steps", str(args.steps), "--sample", "0", "--eval-batches", "1", "--mesh", args.plan,
                   "--comm-optimization-level", str(level), "--link", f"200us:{args.mbit / 8e3:g}GB/s", *args.options]
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"a rank failed: {[rank.returncode for rank in ranks]}")
    return json.loads(outputs[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("monograph")
    parser.add_argument("text")
    parser.add_argument("--mbit", type=int, default=800)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--plan", default="dp=2")
    args, args.options = parser.parse_known_args()
    leave()
    try:
        join(args.mbit)
        print(f"gpt-nano, {args.plan}, two ranks over TCP, {args.mbit} Mbit/s each way, {args.steps} steps\n")
        print("| level | collectives | computation ms | communication ms | exposed ms | predicted | step p50 ms | loss |")
        print("|--:|--:|--:|--:|--:|--:|--:|--:|")
        for level in (0, 1, 2):
            result = run(args, level)
            e, r = result["report"]["exchange"], result["report"]["run"]
            print(f"| {level} | {len(e['collectives'])} | {e['computation_ms']:.1f} | {e['communication_ms']:.1f} | "
                  f"{e['exposed_ms']:.1f} | {e['predicted_exposed_ms']:.1f} | {r['p50_ms']:.1f} | "
                  f"{result['training_loss']:.6f} |", flush=True)
    finally:
        leave()


if __name__ == "__main__":
    main()
