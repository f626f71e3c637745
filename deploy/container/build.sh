#!/usr/bin/env bash
# Builds the container image of Medley's programs, with buildah: deploy/container/build.sh [OPTION]...
#   --tag NAME           what the image is called (medley:local)
#   --base IMAGE         a Debian 12 to build it on (debian:12-slim)
#   --packages "A B"     further Debian packages, such as intel-opencl-icd, or mesa-opencl-icd for AMD
#   --programs FOLDER    where the four programs lie; they are built if it is left out
#   --context FOLDER     writes what the image is made of into FOLDER, and stops: for other tools than buildah
# Run-time libraries are not copied: the packages that own what the programs were linked with are installed in the image, and so
# are the libraries that programs and UCX open at run time.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; }
fail() { echo "build.sh: $*" >&2; exit 1; }
tag=medley:local base=debian:12-slim further='' programs='' context=''
while [ $# -gt 0 ]; do
  case $1 in
    --tag) tag=${2:?--tag needs a name}; shift 2 ;;
    --base) base=${2:?--base needs an image}; shift 2 ;;
    --packages) further=${2:?--packages needs names}; shift 2 ;;
    --programs) programs=${2:?--programs needs a folder}; shift 2 ;;
    --context) context=${2:?--context needs a folder}; shift 2 ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[ -n "$context" ] || command -v buildah >/dev/null || fail "there is no buildah; --context FOLDER writes what another tool can build"

names=(cli/medley coordinator/daemon/medley-coordinator agent/daemon/medley-agent agent/worker/medley-worker)
files=()
if [ -z "$programs" ]; then
  (cd "$root" && bazel build --ui_event_filters=-info //:medley)
  for name in "${names[@]}"; do files+=("$root/bazel-bin/$name"); done
else
  for name in "${names[@]}"; do files+=("$programs/${name##*/}"); done
fi
for file in "${files[@]}"; do [ -x "$file" ] || fail "$file is not there, or is no program"; done

folder=$context
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder/programs"
install -m 755 "${files[@]}" "$folder/programs/"
install -m 644 "$root/deploy/container/Containerfile" "$folder/"

linked=$(ldd "${files[@]}" | awk '/not found/ { print "missing " $1 } $3 ~ /^\// { print $3 }' | sort -u)
if missing=$(grep '^missing' <<<"$linked"); then fail "libraries that programs need are not on this machine: ${missing//missing /}"; fi
# Who owns them: under the name that they are linked by or the one that leads to, with and without the /usr that /lib is a link to.
declare -A packages
names_of() {
  local real
  real=$(readlink -f "$1")
  printf '%s\n' "$1" "/usr$1" "${1#/usr}" "$real" "/usr$real" "${real#/usr}"
}
while read -r package path; do packages[$path]=${package%%:*}; done < <(
  while read -r library; do names_of "$library"; done <<<"$linked" | sort -u | xargs dpkg-query --search 2>/dev/null)
owner() {
  local name
  for name in $(names_of "$1"); do
    if [ -n "${packages[$name]:-}" ]; then echo "${packages[$name]}"; return; fi
  done
  fail "no Debian package owns $1"
}
{
  while read -r library; do owner "$library"; done <<<"$linked"
  # Opened at run time: OpenCL's loader, its matrix products, and the drivers of RDMA cards. UCX brings its transports itself.
  printf '%s\n' ocl-icd-libopencl1 libclblast1 ibverbs-providers
  for package in $further; do echo "$package"; done
} | sort -u > "$folder/packages.txt"
[ -z "$context" ] || { echo "$folder: $(wc -l < "$folder/packages.txt") packages, ${#files[@]} programs"; exit 0; }

buildah build --build-arg "BASE=$base" --tag "$tag" --file "$folder/Containerfile" "$folder"
