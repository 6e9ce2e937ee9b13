#!/usr/bin/env bash
# What a person sees of `monograph train` and `monograph compile` when things go wrong, and on Ctrl-C.
# Usage: tests/cli/train.sh MONOGRAPH TEXT_FILE
set -uo pipefail
monograph=$1 text=$2
source "$(dirname "$0")/expect.sh"

small=(--layers 1 --heads 2 --embd 32 --block 16 --batch 4)
expect 2 "unknown model 'gpt-huge': use one of mlp, gpt-nano" "$monograph" train gpt-huge --data "$text"
expect 2 "bacth.*batch" "$monograph" train gpt-nano --bacth 3 --data "$text"
expect 2 "give --data FILE" "$monograph" train gpt-nano
expect 2 "cannot read --data '/nowhere'" "$monograph" train gpt-nano --data /nowhere
: >"$work/empty"
expect 2 "is empty: give plain text" "$monograph" train gpt-nano --data "$work/empty"
expect 2 "--batch 0: use 1 or more" "$monograph" train gpt-nano --batch 0 --data "$text"
expect 2 "model mlp takes no --heads" "$monograph" compile mlp --heads 2
expect 2 "model gpt-nano takes no --hidden" "$monograph" compile gpt-nano --hidden 2
expect 2 "event category 'grap': use one of graph, compile, run" "$monograph" train gpt-nano --data "$text" --log-events "$work/e" --log-level grap=info
expect 2 "f64.*f32.*bf16" "$monograph" compile gpt-nano --precision f64
expect 2 "loss scale 'big': use none, dynamic or a number" "$monograph" train gpt-nano --loss-scale big --data "$text"
expect 2 "memory budget of 0.1 MB: the step takes" "$monograph" compile gpt-nano "${small[@]}" --backend null --memory-budget 100kB
expect 2 "no pass is called 'fuze': use one of" "$monograph" compile gpt-nano --disable-pass fuze
expect 2 "'isolate' is required" "$monograph" compile gpt-nano --disable-pass isolate
expect 2 "^error: --device cuda: .*or use --device cpu$" env CUDA_VISIBLE_DEVICES= "$monograph" train gpt-nano --data "$text" --device cuda
expect 2 "mode='max-autotune' is of backend cuda" "$monograph" compile gpt-nano --mode max-autotune
expect 2 "cannot write --timeline" "$monograph" train gpt-nano --data "$text" --timeline /nowhere/t
expect 2 "no language model is called 'resnet50': use one of mlp" "$monograph" train resnet50 --data "$text"
expect 2 "model resnet-tiny takes no --heads: it has --image, --classes and --batch" "$monograph" compile resnet-tiny --heads 2
expect 0 "^dynamic +batch 1\.\.4, time 2\.\.16: 2 compilations" "$monograph" compile gpt-nano "${small[@]}" --dynamic-batch --dynamic-time
expect 0 "^dynamic +batch 1\.\.64: 1 compilation" "$monograph" compile mlp --dynamic-batch
expect 2 "dynamic.* with backend null: use backend cpu" "$monograph" compile mlp --dynamic-batch --backend null
expect 2 "dynamic-time of an image model: use --dynamic-batch" "$monograph" compile resnet-tiny --dynamic-time
expect 0 "memory +peak" "$monograph" compile resnet-tiny --image 16 --batch 2 --classes 3
expect 2 "no-such-compiler" env CXX=no-such-compiler "$monograph" compile gpt-nano "${small[@]}"
expect 0 "codegen +[0-9]+ kernels .* 0 from cache" "$monograph" compile gpt-nano "${small[@]}"
expect 0 "codegen +([0-9]+) kernels .* \1 from cache" "$monograph" compile gpt-nano "${small[@]}"
expect 0 "unigram entropy" "$monograph" train gpt-nano "${small[@]}" --steps 5 --data "$text" --tensorboard "$work/tb"
expect 0 "unigram entropy" "$monograph" train gpt-nano "${small[@]}" --steps 5 --data "$text" --loss-scale dynamic --moments bf16
expect 0 "unigram entropy" env MONOGRAPH_LOGS=off,compile=info,run=info "$monograph" train gpt-nano "${small[@]}" --steps 2 --data "$text" --log-events "$work/events"
expect 0 '"category":"compile","event":"compile","frame_key":"train_step#1","graph_hash":"[0-9a-f]{32}"' grep compile "$work/events"
expect 0 '^2$' grep -c '"event":"step"' "$work/events"
expect 1 '^0$' grep -c '"category":"graph"' "$work/events"
expect 2 "cannot write events to '/dev/full'" "$monograph" train gpt-nano "${small[@]}" --steps 5 --data "$text" --log-events /dev/full
expect 74 "standard output could not be written" bash -c "'$monograph' compile gpt-nano >/dev/full"

expect 0 "weights saved to" "$monograph" train gpt-nano "${small[@]}" --steps 2 --data "$text" --save "$work/weights"
expect 0 "unigram entropy" "$monograph" train gpt-nano "${small[@]}" --steps 2 --data "$text" --init-from "$work/weights"
expect 2 "1 unfit: transformer.wpe.weight is f32\[16,32\], the model takes \[8,32\]" "$monograph" train gpt-nano --layers 1 --heads 2 --embd 32 --block 8 --data "$text" --init-from "$work/weights"
head -c 2001 "$text" >"$work/odd.bin"
expect 2 "has 2001 bytes, an odd number" "$monograph" train gpt-nano --data "$work/odd.bin"
head -c 2000 "$text" >"$work/text.bin"
expect 2 "token number 0 is [0-9]+, and the model has a vocabulary of 256" "$monograph" train gpt-nano "${small[@]}" --data "$work/text.bin"
expect 0 "unigram entropy .* nats a token" "$monograph" train gpt-nano "${small[@]}" --vocab 65536 --steps 2 --data "$work/text.bin"

# Checkpoints: a run goes on; a changed file is named.
expect 2 "give --checkpoint-dir FOLDER" "$monograph" train gpt-nano "${small[@]}" --data "$text" --resume
expect 0 "begins at step 0" "$monograph" train gpt-nano "${small[@]}" --steps 3 --data "$text" --checkpoint-dir "$work/c" --resume
expect 0 "resume +from step 3" "$monograph" train gpt-nano "${small[@]}" --steps 5 --data "$text" --checkpoint-dir "$work/c" --resume
printf 'x' | dd of="$work/c/step-5.safetensors" bs=1 seek=9000 conv=notrunc 2>/dev/null
expect 2 "step-5.safetensors' cannot be used: the elements of tensor '.*' were changed" "$monograph" train gpt-nano "${small[@]}" --steps 6 --data "$text" --checkpoint-dir "$work/c" --resume

# Ctrl-C ends the run after its step, with validation and report, and status 130.
"$monograph" train gpt-nano "${small[@]}" --steps 1000000 --data "$text" >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 200); do grep -q '^step ' "$work/log" && break; sleep 0.1; done
kill -INT $pid
wait $pid
status=$?
if [ $status -ne 130 ] || ! grep -q '^interrupted after' "$work/log" || ! grep -q 'copy bandwidth' "$work/log"; then
  failures=$((failures + 1))
  printf 'FAILED: Ctrl-C: status %s\n' "$status"
  cat "$work/log"
fi
[ $failures -eq 0 ] && echo "all passed"
exit $failures
