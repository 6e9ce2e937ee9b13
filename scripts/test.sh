#!/usr/bin/env bash
# From a bare Debian 12 to a tested build: installs packages, builds, checks layers and format, runs all tests.
# Every step runs even if another failed; the exit status is 0 only if all passed.
# Usage: scripts/test.sh
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
step() {  # step NAME COMMAND...
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

step packages scripts/install_packages.sh
step build scripts/build.sh
step "layer check, its own test" python3 tools/check_layers_test.py --quiet
step layers python3 tools/check_layers.py
step format tools/format.sh
step tests ctest --test-dir build --output-on-failure --no-tests=error --parallel "$(nproc)"

if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "all passed"
