#!/usr/bin/env bash
# explain, bisect, cache, the fallback and events from the command line, as a person uses them.
# Usage: tests/cli/explain.sh MONOGRAPH TEXT_FILE DOCS_EVENTS_MD PYTHON
set -uo pipefail
monograph=$1 text=$2 schema=$3 python=$4
here=$(dirname "$0")
source "$here/expect.sh"

small=(--layers 2 --heads 2 --embd 32 --block 16 --batch 4)
expect 0 '^graph breaks: 0$' "$monograph" explain gpt-nano "${small[@]}"
expect 0 '^compiled [0-9]+ kernels \([0-9]+ fused, [0-9.]+ %\)$' "$monograph" explain gpt-nano "${small[@]}"
expect 0 'fusion: [0-9]+ of [0-9]+ kernel nodes' "$monograph" explain gpt-nano "${small[@]}"
expect 0 '  input0 +i64\[4,16\]' "$monograph" explain gpt-nano "${small[@]}" --backend null
expect 0 'not fused: [0-9]+ edges: the pass fuse did not run' "$monograph" compile gpt-nano "${small[@]}" --backend null --disable-pass fuse
expect 0 'collectives: [1-9]' "$monograph" explain gpt-nano "${small[@]}" --backend null --ranks 4
expect 0 'optimizer.m.*bf16' "$monograph" explain gpt-nano "${small[@]}" --backend null --moments bf16 --node optimizer.m.wte.weight
expect 2 'trained by SGD, in f32' "$monograph" compile resnet18 --backend null --moments bf16
expect 2 'with more backend null' "$monograph" explain gpt-nano "${small[@]}" --ranks 4
expect 0 '"fused_share"' "$monograph" explain gpt-nano "${small[@]}" --backend null --json
expect 0 'program +done in step [0-9]+: kernel [0-9]+ +h.1.mlp' "$monograph" explain gpt-nano "${small[@]}" --backend null --node h.1.mlp
expect 0 'program +read in step [0-9]+: addmm' "$monograph" explain gpt-nano "${small[@]}" --backend null --node h.0.attn.c_attn.weight
expect 0 'and back +step' "$monograph" explain gpt-nano "${small[@]}" --backend null --node tanh
expect 2 "no traced node is 'h.9'.*h.0.attn" "$monograph" explain gpt-nano "${small[@]}" --backend null --node h.9
expect 0 'extern "C" void kernel_' "$monograph" explain gpt-nano "${small[@]}" --backend null --kernel 0
cuda_source=$("$monograph" explain gpt-nano "${small[@]}" --backend null --target h200 --kernel 0 2>&1)
if grep -q 'NVRTC, which cannot be opened' <<<"$cuda_source"; then
  echo "skipped: CUDA source of a kernel, since there is no NVRTC"
else
  expect 0 '__global__' "$monograph" explain gpt-nano "${small[@]}" --backend null --target h200 --kernel 0
fi
expect 2 'has kernels 0 to' "$monograph" explain gpt-nano "${small[@]}" --backend null --kernel 99
expect 0 'came from these nodes' "$monograph" explain gpt-nano "${small[@]}" --backend null --op tanh
expect 2 'no step does it' "$monograph" explain gpt-nano "${small[@]}" --backend null --op conv2d
expect 2 'compiles nothing to explain' "$monograph" explain gpt-nano "${small[@]}" --backend interpret
expect 2 'install the package graphviz' env PATH=/nowhere "$monograph" explain gpt-nano "${small[@]}" --backend null --svg "$work/step.svg"
if command -v dot >/dev/null; then
  expect 0 "drawn to $work/step.svg" "$monograph" explain gpt-nano "${small[@]}" --backend null --svg "$work/step.svg"
  expect 0 '</svg>' tail -n 1 "$work/step.svg"
fi

expect 0 '^right ' "$monograph" bisect gpt-nano --layers 1 --heads 2 --embd 16
expect 0 'kernels furthest' "$monograph" bisect gpt-nano --layers 1 --heads 2 --embd 16 --slow --steps 1

expect 0 'g\+\+ [0-9.]+' "$monograph" cache ls
expect 0 'every kernel can be loaded' "$monograph" cache verify
library=$(ls "$work"/cache/libraries/*.so | head -n 1)
printf 'x' | dd of="$library" bs=1 seek=900 conv=notrunc 2>/dev/null
expect 1 "the library's bytes are not those compiled" "$monograph" cache verify
expect 0 'removed [1-9][0-9]* kernels' "$monograph" cache gc
expect 0 'every kernel can be loaded' "$monograph" cache verify
expect 2 'RANK_NOT_SET, which is not set' "$monograph" cache ls --dir '/tmp/${RANK_NOT_SET}'
expect 2 'use ls, verify, gc' "$monograph" cache clean
expect 2 'max-mb -5 .*use 0 or more, or -1 for no limit' "$monograph" cache gc --max-mb -5
expect 2 "limits of gc: 'ls' removes nothing" "$monograph" cache ls --max-days 3
expect 0 'kernels compiled again: flags was|command was' env CXX="g++ -DOTHER" "$monograph" compile gpt-nano "${small[@]}"

# A compiler that takes its time, and none.
cat >"$work/slow" <<'END'
#!/bin/sh
case "$*" in *--version*) exec g++ --version;; esac
sleep 2
exec g++ "$@"
END
chmod +x "$work/slow"
train=("$monograph" train gpt-nano "${small[@]}" --data "$text" --sample 0 --eval-batches 1)
expect 0 "'train_step' runs its compiled kernels from now on" "${train[@]}" --steps 3000 --compiler "$work/slow" --compile-timeout 0.2 \
  --cache-dir "$work/other" --log-events "$work/swap" --metrics "$work/metrics" --peak-tflops 1 --timeline "$work/timeline"
expect 0 '^monograph_mfu\{rank="0"\} 0\.[0-9]+$' grep mfu "$work/metrics"
expect 0 '^monograph_compile_timeouts_total\{rank="0"\} 2$' grep compile_timeouts "$work/metrics"
expect 0 '^monograph_swap_ins_total\{rank="0"\} 2$' grep swap_ins "$work/metrics"
expect 0 '"name":"compile_timeout".*"rank":0,"graph":"[0-9a-f]{32}","function":"train_step#1","reason":"compile timeout after' \
  cat "$work/timeline"
expect 0 '"name":"swap_in".*"ms":[0-9]' cat "$work/timeline"
expect 0 '^same$' "$python" -c "
import json, sys
events = json.load(open(sys.argv[1]))['traceEvents']
steps = [e for e in events if e.get('cat') == 'steps']
parts = [e for e in events if e.get('cat') == 'computation']
inside = all(any(s['ts'] <= p['ts'] and p['ts'] + p['dur'] <= s['ts'] + s['dur'] for s in steps) for p in parts)
print('same' if len(steps) == 3000 and parts and inside else 'not the same')" "$work/timeline"
expect 2 "give a folder of this job alone" "${train[@]}" --steps 2 --cache-dir "$work/all" --remove-cache
expect 0 'guard failures' env JOB=7 "${train[@]}" --steps 2 --cache-dir "$work/job_\${JOB}" --remove-cache
expect 2 'No such file' ls "$work/job_7"
expect 2 'cannot be run' "${train[@]}" --steps 3 --compiler /no/compiler
expect 0 'runs without compiled kernels, slower: .*cannot be run' "${train[@]}" --steps 3 --compiler /no/compiler --suppress-errors \
  --log-events "$work/without"
expect 2 "compile_timeout='soon': use seconds" "${train[@]}" --compile-timeout soon
expect 2 "peak-tflops -1: use a number above 0" "${train[@]}" --peak-tflops -1
expect 2 "cannot write metrics" "${train[@]}" --steps 2 --metrics /nowhere/metrics

expect 0 'guard failures: 0' "${train[@]}" --steps 3 --log-events "$work/all" --log-level trace --disable-pass fuse
expect 0 '"cause":"the pass fuse did not run","edges":[0-9]+' grep '"unfused"' "$work/all"
expect 0 'kinds of events' "$python" "$here/events.py" "$schema" "$work/all" "$work/swap" "$work/without"
sed -n '1s/"event":"/"event":"un/p' "$work/all" >"$work/unknown"
expect 1 "is not in the tables" "$python" "$here/events.py" "$schema" "$work/unknown"
[ $failures -eq 0 ] && echo "all passed"
exit $failures
