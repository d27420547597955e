#!/usr/bin/env bash
# The Debian packages that the tests need: a real registry, a real container engine, independent readers of images, a compiler.
set -euo pipefail

declare -A package_of=(
  [docker-registry]=docker-registry
  [htpasswd]=apache2-utils
  [skopeo]=skopeo
  [podman]=podman
  [buildah]=buildah
  [g++]=g++
  [git]=git
  [dockerd]=docker.io
  [tini]=tini
  [setpriv]=util-linux
  [unshare]=util-linux
)

missing=()
for command in "${!package_of[@]}"; do
  command -v "$command" > /dev/null || missing+=("${package_of[$command]}")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
  echo "The tests need: ${missing[*]}. On Debian or Ubuntu: sudo apt-get install ${missing[*]}" >&2
  exit 32
fi
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
