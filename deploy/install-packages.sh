#!/usr/bin/env bash
# Installs the Debian packages of deploy/apt-packages.txt (and of any further list named as an argument) that are missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in
  -h|--help) echo "usage: deploy/install-packages.sh [LIST]...    installs those of deploy/apt-packages.txt and LIST that are missing"; exit 0 ;;
esac
for list in "$@"; do
  [ -f "$list" ] && [ -r "$list" ] || { echo "install-packages.sh: $list is no file that can be read" >&2; exit 2; }
done

missing=()
while read -r package; do
  [ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" = "install ok installed" ] || missing+=("$package")
done < <(sed 's/#.*//;s/[[:space:]]//g' -- "$here/apt-packages.txt" "$@" | grep -v '^$')
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "needs root, or sudo, to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "apt-get failed; its whole output is in $log" >&2
  exit 1
fi
rm -f "$log"
