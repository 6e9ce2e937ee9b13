#!/usr/bin/env bash
# What a person sees of meshes that cannot be: each mistake has an error of its own that says what to do.
# Usage: tests/cli/bad_meshes.sh MONOGRAPH TEXT_FILE
set -uo pipefail
monograph=$1 text=$2
source "$(dirname "$0")/expect.sh"

on_two() {
  "$monograph" run --nproc-per-node 2 --log-dir "$work/logs" -- train gpt-nano --layers 1 --heads 2 --embd 32 --block 16 \
    --steps 2 --data "$text" "$@"
}
compile() { "$monograph" compile "$@" --backend null; }

expect 2 "mesh\(dp=4\) on a world of 2 ranks: the sizes of its axes must multiply to that" on_two --mesh dp=4
expect 2 "mesh\(dp=2, tp=2\) on a world of 2 ranks" on_two --mesh dp=2,tp=2
# Rank 1 is started with another option, or as another program: both ranks say so within 10 seconds, before the first step.
cat >"$work/planted" <<END
[ "\$RANK" = 1 ] && set -- "\$@" \$PLANTED
exec "$monograph" train gpt-nano --layers 1 --heads 2 --embd 32 --block 16 --batch 4 --steps 2 --data "$text" "\$@"
END
planted() { PLANTED=$1 timeout 10 "$monograph" run --nproc-per-node 2 --log-dir "$work/logs" -- bash "$work/planted" "${@:2}"; }
for rank in 0 1; do
  expect 2 "\[$rank\].*the 2 ranks have not compiled the same" planted "--precision bf16"
  expect 2 "\[$rank\].*the 2 ranks have not compiled the same" planted "--clip 0.5" --mesh tp=2
done
expect 2 "option precision: f32 against bf16" planted "--precision bf16" --mesh fsdp=2
expect 2 "option disable_pass:  against fuse" planted "--disable-pass fuse"
expect 2 "--batch 1 on 2 ranks: use one row a rank or more" on_two --batch 1
expect 2 "--mesh ep=2: unknown axis 'ep': use dp, fsdp, tp or pp" compile gpt-nano --mesh ep=2
expect 2 "--mesh tp: give axes with their sizes, as dp=2,fsdp=4" compile gpt-nano --mesh tp
expect 2 "mesh axis 'tp' of size 0: give it a name and at least one rank" compile gpt-nano --mesh tp=0
expect 2 "mesh axis 'dp' stands twice" compile gpt-nano --mesh dp=2,dp=2
expect 2 "n_head 4 over 3 ranks of axis 'tp': each has whole heads, use a divisor of 4" compile gpt-nano --mesh tp=3
expect 2 "n_kv_head 2 over 4 ranks of axis 'tp'" compile llama-nano --mesh tp=4
expect 2 "parameter 'wte.weight' is f32\[255,128\]: its dim 0 cannot be divided by the 2 ranks of axis 'tp'" compile gpt-nano --vocab 255 --mesh tp=2
expect 2 "model mlp has no plan for tensor parallel training: use a gpt or llama model" compile mlp --mesh tp=2
expect 2 "block_size 30 over 4 ranks of axis 'tp': sequence parallel" compile gpt-nano --block 30 --mesh tp=4 --sequence-parallel
expect 2 "--sequence-parallel without axis tp" compile gpt-nano --mesh dp=2 --sequence-parallel
expect 2 "--strategy shard-grad-op without axis fsdp" compile gpt-nano --mesh dp=2 --strategy shard-grad-op
expect 2 "strategy hybrid keeps copies of the parts over axis 'dp', which mesh\(fsdp=2\) has not" compile gpt-nano --mesh fsdp=2 --strategy hybrid
expect 2 "strategy.*zero3.*full-shard" compile gpt-nano --mesh fsdp=2 --strategy zero3
expect 2 "compression 'gzip': use qsgd:BITS" compile gpt-nano --mesh dp=2 --compress gzip
expect 2 "compression qsgd of 3 bits: use 2, 4 or 8" compile gpt-nano --mesh dp=2 --compress qsgd:3
expect 2 "compression topk of 2 of the elements: use a fraction above 0" compile gpt-nano --mesh dp=2 --compress topk:2
expect 2 "compression powersgd of rank 0: use 1 or more" compile gpt-nano --mesh dp=2 --compress powersgd:0
expect 2 "--compress qsgd:4 on one rank: no ranks exchange gradients there" compile gpt-nano --compress qsgd:4
expect 2 "--compress qsgd:4 on mesh\(tp=2\): no ranks exchange gradients there" compile gpt-nano --mesh tp=2 --compress qsgd:4
expect 2 "parts of it that cut through matrices, which a low-rank factor needs whole" compile gpt-nano --mesh fsdp=2 --compress powersgd:2
expect 0 "gradients compressed: a rank sends" compile gpt-nano --mesh dp=4,fsdp=2 --compress qsgd:4
pipeline() { compile "$1" --layers 4 --mesh "$2" "${@:3}"; }
expect 2 "a pipeline of 8 stages for a model of 4 layers: each stage has one at least" pipeline gpt-nano pp=8
expect 2 "a pipeline of 8 stages for a model of 4 layers.*or chunks" pipeline gpt-nano pp=4 --schedule interleaved --micro-batches 4
expect 2 "i64\[16,128\] cannot be split into 3 micro-batches: use a batch that 3 divides" pipeline gpt-nano pp=2 --micro-batches 3
expect 2 "interleaved of 2 micro-batches over 4 ranks of axis 'pp': use a multiple of 4" pipeline gpt-nano pp=4 --schedule interleaved --micro-batches 2
expect 2 "schedule interleaved of 1 chunks a rank: use 2 or more" pipeline gpt-nano pp=2 --schedule interleaved --micro-batches 2 --chunks 1
expect 2 "schedule.*gpipe.*1f1b" pipeline gpt-nano pp=2 --schedule gpipe
expect 2 "cut.*half.*layers" pipeline gpt-nano pp=2 --cut half
expect 2 "--schedule zb-h1 --cut layers without axis pp" compile gpt-nano --mesh dp=2 --schedule zb-h1
expect 2 "a pipeline on GPUs: axis pp runs on CPUs only, use --device cpu" pipeline gpt-nano pp=2 --target h200
expect 2 "fully_shard of a model in a pipeline" pipeline gpt-nano fsdp=2,pp=2
expect 2 "model mlp has no plan for pipeline parallel training: use a gpt or llama model" compile mlp --mesh pp=2
expect 2 "--stage 2: axis pp of mesh\(pp=2\) has places 0 to 1" pipeline gpt-nano pp=2 --stage 2
sweep() { "$monograph" compress-sweep mlp --hidden 32 --layers 1 --batch 8 --steps 2 --backend interpret --data "$text" "$@"; }
expect 0 "^qsgd:4 .* -$" sweep --settings qsgd:4
expect 2 "compression qsgd of 16 bits: use 2, 4 or 8" sweep --settings qsgd:4,qsgd:16
expect 2 "a batch of 8 rows on 3 ranks: use a number of rows that they divide" sweep --ranks 3
[ "$failures" -eq 0 ] && echo "all passed"
exit "$failures"
