#!/usr/bin/env bash
# Configures and builds: everything, or the targets named. The program is then build/bin/monograph.
# Usage: scripts/build.sh [-DNAME=VALUE...] [TARGET...]     e.g. -DMONOGRAPH_SANITIZE=address,undefined
set -euo pipefail
cd "$(dirname "$0")/.."
options=() targets=()
for argument in "$@"; do
  case $argument in
    -D*) options+=("$argument") ;;
    *) targets+=("$argument") ;;
  esac
done
cmake -S . -B build -G Ninja "${options[@]}" >/dev/null
ninja -C build --quiet "${targets[@]}"
