# Sourced by the tests of this folder: a work folder and cache of their own, and how a command is checked.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MONOGRAPH_CACHE_DIR=$work/cache OMP_WAIT_POLICY=passive
failures=0

# expect STATUS PATTERN COMMAND...: the exit status, and a line of the output (both streams).
expect() {
  local status=$1 pattern=$2
  shift 2
  local output got
  output=$("$@" 2>&1)
  got=$?
  if [ "$got" -ne "$status" ] || ! grep -qE -- "$pattern" <<<"$output"; then
    failures=$((failures + 1))
    printf 'FAILED: %s\n  expected status %s and /%s/, got status %s and\n%s\n' "$*" "$status" "$pattern" "$got" "$output"
  fi
}
