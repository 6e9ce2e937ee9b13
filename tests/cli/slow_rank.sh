#!/usr/bin/env bash
# Of four processes one has a slow compiler: all begin without compiled kernels, and all take them at one step.
# Usage: tests/cli/slow_rank.sh MONOGRAPH TEXT_FILE
set -uo pipefail
monograph=$1 text=$2
source "$(dirname "$0")/expect.sh"
export OMP_NUM_THREADS=1

cat >"$work/compiler" <<'END'
#!/bin/sh
case "$*" in *--version*) exec g++ --version;; esac
[ "$RANK" = 2 ] && sleep 2
exec g++ "$@"
END
chmod +x "$work/compiler"
options=(train mlp --batch 16 --steps 3000 --data "$text" --sample 0 --eval-batches 1)
expect 0 "'train_step' runs its compiled kernels from now on" "$monograph" run --nproc-per-node 4 --log-dir "$work/logs" -- \
  "${options[@]}" --compiler "$work/compiler" --compile-timeout 0.5 --cache-dir "$work/rank_\${RANK}" --log-events "$work/events"

# Of the training step: the step at which each rank took its kernels, and the losses.
swap() { grep '"event":"swap_in"' "$1" | grep -o '"frame_key":"train_step#1".*"step":[0-9]*'; }
losses() { grep '"event":"step"' "$1" | grep -o '"loss":[^,}]*'; }
expect 0 '"step":[1-9]' swap "$work/events.rank0"
for rank in 1 2 3; do
  expect 0 '^same$' bash -c "$(declare -f swap losses); cmp -s <(swap $work/events.rank0) <(swap $work/events.rank$rank) &&
    cmp -s <(losses $work/events.rank0) <(losses $work/events.rank$rank) && echo same"
done
[ $failures -eq 0 ] && echo "all passed"
exit $failures
