#!/usr/bin/env bash
# Trains gpt-nano on the text of Git's manuals, from a bare Debian 12.
# Usage: scripts/demo.sh [ARGUMENT_OF_TRAIN...]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh
scripts/build.sh monograph
[ -s build/text.txt ] || scripts/make_text.sh build/text.txt
build/bin/monograph train gpt-nano --data build/text.txt "$@"
