#!/usr/bin/env bash
# Configures and builds everything. The program is then build/bin/monograph.
# Usage: scripts/build.sh [CMAKE_ARGUMENT...]     e.g. -DMONOGRAPH_SANITIZE=address,undefined
set -euo pipefail
cd "$(dirname "$0")/.."
cmake -S . -B build -G Ninja "$@" >/dev/null
ninja -C build --quiet
