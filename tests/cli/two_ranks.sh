#!/usr/bin/env bash
# Two processes train as one does: the losses of every step, the report, a checkpoint that one rank goes on from.
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
"$monograph" "${options[@]}" --log-events "$work/one" >"$work/one.out" 2>&1 || fail "one rank" "$work/one.out"
"$monograph" run --nproc-per-node 2 --log-dir "$work/logs" -- "${options[@]}" --log-events "$work/two" \
  --checkpoint-dir "$work/checkpoints" >"$work/two.out" 2>&1 || fail "two ranks" "$work/two.out"
grep -q 'exchange over 2 ranks' "$work/two.out" || fail "no report of the exchange" "$work/two.out"
losses() { grep '"event":"step"' "$1" | sed 's/.*"loss":\([0-9.e+-]*\).*/\1/'; }
paste <(losses "$work/one") <(losses "$work/two.rank0") |
  awk '{ d = $1 / $2 - 1; if (d > 1e-4 || d < -1e-4) bad = 1; ++n } END { exit bad || n != 20 }' ||
  fail "losses differ" "$work/one.out" "$work/two.out"
cmp -s <(losses "$work/two.rank0") <(losses "$work/two.rank1") || fail "ranks have different losses" "$work/two.out"
"$monograph" "${options[@]}" --checkpoint-dir "$work/checkpoints" --resume >"$work/resumed.out" 2>&1 &&
  grep -q 'resume    from step 20' "$work/resumed.out" || fail "resume" "$work/resumed.out"
echo "all passed"
