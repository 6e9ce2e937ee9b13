#!/usr/bin/env bash
# Checks the format of all C++ and CUDA files with clang-format 14 (other versions format differently).
# Usage: tools/format.sh [--fix]      without --fix: prints each place that differs and exits 1
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "") mode=(--dry-run -Werror) ;;
  --fix) mode=(-i) ;;
  *) echo "format: unknown option '$1': use --fix or nothing" >&2; exit 2 ;;
esac
formatter=$(command -v clang-format-14) ||
  { echo "format: clang-format-14 is missing: run scripts/install_packages.sh" >&2; exit 1; }
mapfile -t folders < <(ls -d src tests bench examples python 2>/dev/null)
mapfile -t files < <(find "${folders[@]}" -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) | sort)
[ ${#files[@]} -gt 0 ] || { echo "format: no C++ files found" >&2; exit 1; }
"$formatter" --style=file "${mode[@]}" "${files[@]}"
echo "format: ${#files[@]} files"
