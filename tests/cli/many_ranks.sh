#!/usr/bin/env bash
# One process compiles a step for a described mesh of 1,024 ranks, in less than twice the time of one rank's.
# gpt2-124m with 16 heads and a vocabulary of 50,304, which 8 ranks divide.
# Usage: tests/cli/many_ranks.sh MONOGRAPH
set -uo pipefail
monograph=$1
source "$(dirname "$0")/expect.sh"

# The least of three: nanoseconds of trace, passes, layout and code.
compile_ns() {
  for _ in 1 2 3; do
    "$monograph" compile gpt2-124m --heads 16 --vocab 50304 --backend null --json "$@" |
      sed 's/.*"trace_ns":\([0-9]*\).*"passes_ns":\([0-9]*\),"lower_ns":\([0-9]*\),"codegen_ns":\([0-9]*\).*/\1 \2 \3 \4/'
  done | awk '{ ns = $1 + $2 + $3 + $4; if (NR == 1 || ns < least) least = ns } END { print least }'
}
one=$(compile_ns --batch 4)
many=$(compile_ns --batch 512 --mesh dp=128,tp=8)
echo "one rank $((one / 1000000)) ms, dp=128,tp=8 $((many / 1000000)) ms"
[ "$one" -gt 0 ] && [ "$many" -lt $((2 * one)) ] || failures=1
[ "$failures" -eq 0 ] && echo "all passed"
exit "$failures"
