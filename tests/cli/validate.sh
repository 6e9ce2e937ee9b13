#!/usr/bin/env bash
# validate and bisect from the command line: their words and exit status for right steps, wrong kernels and wrong input.
# Usage: tests/cli/validate.sh MONOGRAPH PYTHON
set -uo pipefail
monograph=$1 python=$2
source "$(dirname "$0")/expect.sh"

small=(--layers 1 --heads 2 --embd 16)
expect 0 '^valid: 7 of 7 checks passed$' "$monograph" validate gpt-nano "${small[@]}"
expect 0 '^valid: 7 of 7' "$monograph" validate mlp --hidden 16 --layers 1
expect 0 '^valid: 7 of 7' "$monograph" validate resnet-tiny --image 16 --classes 3
expect 0 '^h.0.mlp.c_fc.weight +f32\[16,64\] +f32\[16,64\] +cpu:weights +cpu:[a-z]+ +%[0-9]+ +%[0-9]+ +h.0.mlp.c_fc$' \
  "$monograph" validate gpt-nano "${small[@]}" --tables
expect 0 '^16 parameters +cpu +cpu +weights' "$monograph" validate gpt-nano "${small[@]}" --tables
expect 0 '^True 7 16$' bash -c '"$1" validate gpt-nano --layers 1 --heads 2 --embd 16 --json | "$2" -c "
import json, sys
found = json.load(sys.stdin)
print(found[\"passed\"], len(found[\"checks\"]), len(found[\"parameters\"]))"' - "$monograph" "$python"

# A compiler that takes sin for tanh: the kernel is named with its line, and the exit status says so.
cat >"$work/wrong" <<'END'
#!/bin/bash
for word; do case $word in *.cc) sed -i 's/ tanh_of(\([a-z0-9_]*\))/ sinf(\1)/' "$word" ;; esac done
exec g++ "$@"
END
chmod +x "$work/wrong"
wrong=("${small[@]}" --compiler "$work/wrong" --cache-dir "$work/wrong_kernels")
expect 1 '^NOT VALID: 6 of 7 checks passed$' "$monograph" validate gpt-nano "${wrong[@]}"
expect 1 '^numerics +FAILED' "$monograph" validate gpt-nano "${wrong[@]}"
expect 1 'V3 .*tanh' "$monograph" validate gpt-nano "${wrong[@]}"
expect 1 'gpt.cc:[0-9]+ in h.0.mlp: .* off its reference, allowed' "$monograph" validate gpt-nano "${wrong[@]}"
expect 1 '^kernel +the passes are right; this step does not compute its node' "$monograph" bisect gpt-nano "${wrong[@]}"
expect 1 '^node .*tanh' "$monograph" bisect gpt-nano "${wrong[@]}"

for verb in validate bisect; do
  expect 2 "unknown model 'gpt-huge': use one of mlp, gpt-nano" "$monograph" $verb gpt-huge
  expect 2 "--batch 'x' is not valid: give a whole number" "$monograph" $verb gpt-nano --batch x
  expect 2 "needs backend cpu, 'interpret' was given" "$monograph" $verb gpt-nano --backend interpret
  expect 2 "model resnet-tiny takes no --heads" "$monograph" $verb resnet-tiny --heads 2
done
[ $failures -eq 0 ] && echo "all passed"
exit $failures
