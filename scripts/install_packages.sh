#!/usr/bin/env bash
# Installs the Debian packages that building and testing need, those that are missing only.
# Usage: scripts/install_packages.sh [EXTRA_PACKAGE...]
set -euo pipefail

packages=(
  # build
  g++ cmake ninja-build ccache
  libfmt-dev libxxhash-dev nlohmann-json3-dev libsimdjson-dev libcli11-dev libdnnl-dev
  libsqlite3-dev zlib1g-dev libgloo-dev
  # test
  libgtest-dev libgmock-dev python3 clang-format-14
  # drawing docs/architecture.svg
  graphviz
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "packages: all ${#packages[@]} are installed"
  exit
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "packages: root or sudo is needed; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "packages: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
