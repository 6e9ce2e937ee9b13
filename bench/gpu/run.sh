#!/bin/bash
# In one call on a machine with a GPU: builds, checks, times us beside PyTorch and prints the tables.
# Usage: bench/gpu/run.sh RIVALS [BUILD_FOLDER]
# RIVALS holds the PyTorch scripts gpt2_torch.py, llama_torch.py and mlp_torch.py; each prints lines "RESULT
# {json}" and takes --mode eager|default|reduce-overhead|max-autotune and --batch.
#   BATCHES=64,16   of GPT-2 124M     MODES=eager,default,reduce-overhead,max-autotune   of PyTorch
#   CHECKS=0        leave the checks out    LLAMA=0    leave the 1.04 B Llama out
# Results as they come, and logs: $OUT (default: the build folder).
set -u
if [ $# -lt 1 ] || [ ! -f "$1/gpt2_torch.py" ]; then
  echo "error: '${1:-}' holds no gpt2_torch.py: give the folder of the PyTorch scripts" >&2
  exit 2
fi
rivals=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
build=${2:-$source/build}
export OUT=${OUT:-$build}
batches=${BATCHES:-64,16}
modes=${MODES:-eager,default,reduce-overhead,max-autotune}
mkdir -p "$build" && build=$(realpath "$build")

[ -f "$build/build.ninja" ] || cmake -S "$source" -B "$build" -G Ninja > "$OUT/configure.log" || exit 1
ninja -C "$build" codegen_test runtime_test frontend_test bench_gpu_language bench_gpu_mlp \
  > "$OUT/build.log" || { tail -20 "$OUT/build.log" >&2; exit 1; }

failed=0
check() {  # NAME TEST_BINARY FILTER
  if "$build/src/$2" --gtest_filter="$3" > "$OUT/$1.log" 2>&1; then
    echo "check $1: $(grep -E 'PASSED|SKIPPED' "$OUT/$1.log" | tr -s ' ' | paste -sd' ')"
  else
    echo "check $1: FAILED, see $OUT/$1.log"
    failed=1
  fi
}
if [ "${CHECKS:-1}" = 1 ]; then
  check kernels codegen_test 'CudaDevice*'
  check libraries runtime_test 'CudaExecutor*'
  check losses frontend_test 'GoldenTest.*Gpu*'
fi

compare="python3 $source/bench/gpu/compare.py --ours $build/src/bench_gpu_language"
$compare --rival "$rivals/gpt2_torch.py" --our-modes default,max-autotune --modes "$modes" \
  --batch "$batches"
if [ "${LLAMA:-1}" = 1 ]; then
  $compare --rival "$rivals/llama_torch.py" --our-modes max-autotune --modes default --batch 16 \
    --our-options "--model llama-1b --vocabulary 32000 --length 2048"
fi
"$build/src/bench_gpu_mlp" 3
(cd "$rivals" && python3 mlp_torch.py --which graph,reduce) | grep RESULT
exit $failed
