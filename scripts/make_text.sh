#!/usr/bin/env bash
# Writes one plain text file of English to train a byte-level language model on: the sources of Git's manuals, 2.9 MB in
# ASCII, from Debian's package git-doc (2 MB to fetch; unpacked, not installed).
# Usage: scripts/make_text.sh OUT
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: scripts/make_text.sh OUT" >&2; exit 2; }
out=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

cd "$work"
if ! apt-get download -qq git-doc >log 2>&1; then
  echo "make_text: git-doc could not be fetched: run 'apt-get update' as root, or check the network" >&2
  cat log >&2
  exit 1
fi
dpkg-deb --extract git-doc_*.deb tree
mapfile -t files < <(find tree/usr/share/doc/git-doc -name '*.txt' | LC_ALL=C sort)
[ ${#files[@]} -gt 100 ] ||
  { echo "make_text: git-doc holds ${#files[@]} text files: its layout changed" >&2; exit 1; }
mkdir -p "$(dirname "$out")"
cat "${files[@]}" >"$out.part"
mv "$out.part" "$out"
echo "text: $(stat --format=%s "$out") bytes of ${#files[@]} files in $1"
