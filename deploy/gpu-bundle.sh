#!/usr/bin/env bash
# Collects Medley's programs, the conformance test of the GPU and the benchmarks that want one, stripped, with the shared
# libraries they need, into one folder that runs on a machine without our packages: copy it there and call bundle/bin/medley, or
# bundle/run-gpu-checks for everything that wants a GPU. CUDA's own libraries and the driver are not copied; they belong to
# that machine.
#   deploy/gpu-bundle.sh [FOLDER]      default: .medley/bundle; beside it FOLDER.tar.gz. An earlier bundle there is replaced
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
usage="usage: deploy/gpu-bundle.sh [FOLDER]    default: .medley/bundle; beside it FOLDER.tar.gz"
case ${1:-} in
  -h|--help) echo "$usage"; exit 0 ;;
  -*) echo "$usage" >&2; exit 2 ;;
esac
bundle=${1:-$root/.medley/bundle}
# What is there is removed below. A bundle that was cut short has its mark already.
if [ -e "$bundle" ] && [ ! -e "$bundle/.medley-bundle" ] && [ ! -e "$bundle/run-gpu-checks" ] && [ -n "$(ls -A -- "$bundle")" ]; then
  echo "gpu-bundle.sh: $bundle is there already, and is no bundle of ours that may be replaced" >&2
  exit 2
fi
mkdir -p "$bundle"
bundle=$(cd "$bundle" && pwd)
cd "$root"
programs=(
  cli/medley coordinator/daemon/medley-coordinator agent/daemon/medley-agent agent/worker/medley-worker
  tests/conformance/ops_conformance_test_cuda tests/perf/step_benchmark comm/staging/staging_benchmark
  tests/perf/memory_benchmark
)
targets=()
for program in "${programs[@]}"; do targets+=("//${program%/*}:${program##*/}"); done
bazel build --noshow_progress "${targets[@]}"
rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib/ucx" "$bundle/libexec"
: > "$bundle/.medley-bundle"
for program in "${programs[@]}"; do
  install -m 755 "bazel-bin/$program" "$bundle/libexec/"
  ldd "bazel-bin/$program"
done | awk '$3 ~ /^\// { print $3 } $1 ~ /^\/.*ld-linux/ { print $1 }' | sort -u |
  grep -v -e libcuda -e libcublas -e libcudnn -e libnccl | xargs -I{} cp -L {} "$bundle/lib/"
# UCX loads its transports at run time. libdl, libpthread and librt are empty since glibc 2.34, but drivers name them.
cp -L /usr/lib/*/ucx/*.so* "$bundle/lib/ucx/"
for name in libdl.so.2 libpthread.so.0 librt.so.1; do cp -L /lib/*/"$name" "$bundle/lib/"; done
for transport in "$bundle"/lib/ucx/*; do
  ldd "$transport" | awk '$3 ~ /^\// { print $3 }'
done | sort -u | grep -v -e libcuda | xargs -I{} cp -nL {} "$bundle/lib/"
chmod -R u+w "$bundle"
strip --strip-unneeded "$bundle"/libexec/* 2>/dev/null
strip --strip-unneeded "$bundle"/lib/*.so* "$bundle"/lib/ucx/*.so* 2>/dev/null || true
# The C library and its loader go together, apart, for machines whose own is older than what the programs were linked with.
mkdir "$bundle/lib/glibc"
mv "$bundle"/lib/{libc,libm,libdl,libpthread,librt}.so.* "$bundle"/lib/ld-linux* "$bundle/lib/glibc/"
for name in libresolv.so.2 libmvec.so.1; do [ ! -e "$bundle/lib/$name" ] || mv "$bundle/lib/$name" "$bundle/lib/glibc/"; done
getconf GNU_LIBC_VERSION | cut -d' ' -f2 > "$bundle/lib/glibc/version"

cat > "$bundle/bin/.wrapper" <<'WRAPPER'
#!/bin/sh
# Runs the program of this name with the bundle's libraries. The machine's own loader is preferred: the programs find each
# other beside the executable, and with a loader of our own that would be the loader.
here=$(cd "$(dirname "$0")/.." && pwd)
name=$(basename "$0")
export UCX_MODULE_DIR="$here/lib/ucx"
libraries="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
needed=$(cat "$here/lib/glibc/version")
has=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
if [ -n "$has" ] && [ "$(printf '%s\n%s\n' "$needed" "$has" | sort -V | head -n 1)" = "$needed" ]; then
  LD_LIBRARY_PATH=$libraries exec "$here/libexec/$name" "$@"
fi
exec "$here"/lib/glibc/ld-linux* --library-path "$here/lib/glibc:$libraries" "$here/libexec/$name" "$@"
WRAPPER
chmod 755 "$bundle/bin/.wrapper"
for program in "${programs[@]}"; do ln -s .wrapper "$bundle/bin/$(basename "$program")"; done
install -m 755 tests/perf/gpu.sh "$bundle/gpu.sh"
install -m 644 tests/perf/{torch_gpu_step,gpu_jobs,training_cluster}.py "$bundle/"

cat > "$bundle/run-gpu-checks" <<'CHECKS'
#!/usr/bin/env bash
# Whether the kernels are right on this machine's GPU; whether jobs on it and on cores of the processor learn the same and take
# what was predicted; whether plans take the memory that was predicted; then how fast a step is against PyTorch, and how fast its
# memory is reached from another process beside what its copy engine gives.
#   run-gpu-checks [conformance | jobs | memory | benchmark | staging]      default: all
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for folder in $(python3 -c 'import site; print(*site.getsitepackages())' 2>/dev/null); do
  for libraries in "$folder"/nvidia/*/lib; do
    [ -d "$libraries" ] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries"
  done
done
status=0
[ "${1:-conformance}" != conformance ] || "$here/bin/ops_conformance_test_cuda" || status=1
if [ "${1:-jobs}" = jobs ]; then
  jobs=$(mktemp -d /tmp/medley-jobs-XXXXXX)
  python3 "$here/gpu_jobs.py" --binaries "$here/bin" --directory "$jobs" || status=1
  rm -rf "$jobs"
fi
[ "${1:-memory}" != memory ] || "$here/bin/memory_benchmark" cuda || status=1
[ "${1:-benchmark}" != benchmark ] || "$here/gpu.sh" "$here/bin/step_benchmark" || status=1
if [ "${1:-staging}" = staging ]; then
  for link in shared_memory tcp; do "$here/bin/staging_benchmark" --device cuda --link "$link" || status=1; done
fi
exit $status
CHECKS
chmod 755 "$bundle/run-gpu-checks"
tar -czf "$bundle.tar.gz" -C "$(dirname "$bundle")" "$(basename "$bundle")"
echo "bundle at $bundle, $(du -sh "$bundle" | cut -f1); $bundle.tar.gz, $(du -h "$bundle.tar.gz" | cut -f1)"
