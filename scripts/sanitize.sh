#!/usr/bin/env bash
# Builds tests with a sanitizer, in a folder of their own (build-thread, build-address), and runs them.
# Usage: scripts/sanitize.sh thread|address [TEST_BINARY[:GTEST_FILTER]...]
# Without binaries: those whose code has threads or shares memory between them (docs/sanitizers.md).
set -uo pipefail
cd "$(dirname "$0")/.."
kind=${1:-}
case $kind in
  thread) sanitizers=thread ;;
  address) sanitizers=address,undefined ;;
  *) echo "sanitize: '$kind' is no kind of run: use thread or address" >&2; exit 2 ;;
esac
# ThreadSanitizer of g++ 12 and 13 lays out its shadow memory for addresses with little randomness:
# with vm.mmap_rnd_bits above 28 it ends at start, now and then.
[ -n "${MONOGRAPH_SANITIZE_FIXED:-}" ] ||
  MONOGRAPH_SANITIZE_FIXED=1 exec setarch -R "$PWD/scripts/sanitize.sh" "$@"
shift

tests=("$@")
if [ ${#tests[@]} -eq 0 ] && [ "$kind" = thread ]; then
  tests=(
    comm_test runtime_test:-Gemm.BitsDoNotDependOnTheNumberOfThreads launch_test
    'frontend_test:Agreement*:*Distributed*:*DataParallel*:*FullySharded*:TensorParallel*:*UnevenBatches*:*Collectives*:FallbackTest*'
    'train_test:CheckpointTest*:ResumeTest*:*DistributedTrainer*'
  )
elif [ ${#tests[@]} -eq 0 ]; then
  tests=(base_test comm_test launch_test 'train_test:CheckpointTest*:ResumeTest*')
fi
build=build-$kind
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1" \
  -DMONOGRAPH_SANITIZE=$sanitizers -DMONOGRAPH_CUDA=OFF >/dev/null || exit 1
ninja -C "$build" --quiet "${tests[@]%%:*}" || exit 1

# libgomp is not built for ThreadSanitizer, which sees no order between the threads of a parallel
# region and what is around it: one thread each, whatever a test asks for. Ranks, lanes and writers
# are threads of ours.
export OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1
export TSAN_OPTIONS=history_size=4:second_deadlock_stack=1:suppressions=$PWD/tests/thread_sanitizer.txt
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
status=0
for test in "${tests[@]}"; do
  filter=*
  [[ $test == *:* ]] && filter=${test#*:}
  "$build/src/${test%%:*}" --gtest_brief=1 --gtest_filter="$filter" || status=1
done
[ $status -eq 0 ] && echo "sanitize: $kind: clean" || echo "sanitize: $kind: FAILED" >&2
exit $status
