#!/usr/bin/env bash
# Trains gpt-nano on the text of Git's manuals on two ranks, from a bare Debian 12, and prints the report: kernels, and the
# buckets of gradients with predicted and measured exposed communication.
# Usage: scripts/demo.sh [ARGUMENT_OF_TRAIN...]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh
scripts/build.sh monograph
[ -s build/text.txt ] || scripts/make_text.sh build/text.txt
build/bin/monograph run --nproc-per-node 2 -- train gpt-nano --data build/text.txt "$@"
