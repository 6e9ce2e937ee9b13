#!/usr/bin/env bash
# Checks the format of all C++ and CUDA files with clang-format 14 (other versions format differently).
# Usage: tools/format.sh [--fix]      without --fix: names each file that differs and exits 1
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "" | --fix) ;;
  *) echo "format: unknown option '$1': use --fix or nothing" >&2; exit 2 ;;
esac
formatter=$(command -v clang-format-14) ||
  { echo "format: clang-format-14 is missing: run scripts/install_packages.sh" >&2; exit 1; }
mapfile -t folders < <(ls -d src tests bench examples python 2>/dev/null)
mapfile -t files < <(find "${folders[@]}" -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) | sort)
[ ${#files[@]} -gt 0 ] || { echo "format: no C++ files found" >&2; exit 1; }

if [ "${1:-}" = --fix ]; then
  "$formatter" --style=file -i "${files[@]}"
  exit
fi
num_bad=0
for file in "${files[@]}"; do
  # Not a pipe into cmp: clang-format's own failure must count as well.
  formatted=$("$formatter" --style=file "$file"; echo .)
  [ "$formatted" = "$(cat "$file"; echo .)" ] && continue
  first=$(diff <(printf %s "${formatted%.}") "$file" | sed -nE '1s/.*[acd]([0-9]+).*/\1/p' || true)
  echo "$file:${first:-1}: differs from clang-format"
  num_bad=$((num_bad + 1))
done
echo "format: ${#files[@]} files, $num_bad to mend"
[ $num_bad -eq 0 ] || { echo "format: run tools/format.sh --fix"; exit 1; }
