#!/usr/bin/env bash
# Two processes train as one does, on each kind of mesh: the losses of every step, the report, a checkpoint that one rank goes on from.
# Usage: tests/cli/two_ranks.sh MONOGRAPH TEXT_FILE
set -uo pipefail
monograph=$1 text=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MONOGRAPH_CACHE_DIR=$work/cache OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1
options=(train gpt-nano --layers 2 --heads 2 --embd 32 --block 16 --batch 8 --steps 20 --data "$text" --sample 4)

fail() {
  echo "FAILED: $1"
  shift
  cat "$@"
  exit 1
}
losses() { grep '"event":"step"' "$1" | sed 's/.*"loss":\([0-9.e+-]*\).*/\1/'; }

# on_two_ranks NAME OPTIONS...
on_two_ranks() {
  local at=$work/$1
  shift
  "$monograph" run --nproc-per-node 2 --log-dir "$at.logs" -- "${options[@]}" "$@" --log-events "$at" \
    --checkpoint-dir "$at.checkpoints" >"$at.out" 2>&1 || fail "two ranks $*" "$at.out"
  grep -q 'exchange over 2 ranks' "$at.out" || fail "no report of the exchange $*" "$at.out"
  paste <(losses "$work/one") <(losses "$at.rank0") |
    awk '{ d = $1 / $2 - 1; if (d > 1e-4 || d < -1e-4) bad = 1; ++n } END { exit bad || n != 20 }' ||
    fail "losses differ $*" "$work/one.out" "$at.out"
  cmp -s <(losses "$at.rank0") <(losses "$at.rank1") || fail "ranks have different losses $*" "$at.out"
  "$monograph" "${options[@]}" --checkpoint-dir "$at.checkpoints" --resume >"$at.resumed" 2>&1 &&
    grep -q 'resume    from step 20' "$at.resumed" || fail "resume $*" "$at.resumed"
}

"$monograph" "${options[@]}" --log-events "$work/one" >"$work/one.out" 2>&1 || fail "one rank" "$work/one.out"
on_two_ranks copies
on_two_ranks units --mesh fsdp=2
on_two_ranks tensors --mesh tp=2
on_two_ranks sequence --mesh tp=2 --sequence-parallel
on_two_ranks stages --mesh pp=2 --micro-batches 2 --schedule zb-h1
echo "all passed"
