#!/usr/bin/env bash
# Collects Medley's programs with the shared libraries they need into one folder that runs on a machine without our packages:
# copy it there and call bundle/bin/medley. CUDA's own libraries and the driver are not copied; they belong to that machine.
#   deploy/gpu-bundle.sh [FOLDER]      default: .medley/bundle
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bundle=${1:-$root/.medley/bundle}
cd "$root"
bazel build --noshow_progress //:medley
rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/libexec"
for program in coordinator/cli/medley coordinator/daemon/medley-coordinator agent/daemon/medley-agent agent/worker/medley-worker; do
  name=$(basename "$program")
  install -m 755 "bazel-bin/$program" "$bundle/libexec/$name"
  ldd "bazel-bin/$program" | awk '$3 ~ /^\// { print $3 } $1 ~ /^\/.*ld-linux/ { print $1 }'
done | sort -u | grep -v -e libcuda -e libcublas -e libcudnn -e libnccl | xargs -I{} cp -L {} "$bundle/lib/"
# UCX loads its transports at run time.
mkdir -p "$bundle/lib/ucx"
cp -L /usr/lib/*/ucx/*.so* "$bundle/lib/ucx/"
# The programs find each other beside the executable that runs, which is the loader's argument: hence a wrapper that names it.
for program in "$bundle"/libexec/*; do
  name=$(basename "$program")
  cat > "$bundle/bin/$name" <<'WRAPPER'
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" UCX_MODULE_DIR="$here/lib/ucx"
exec "$here/libexec/$(basename "$0")" "$@"
WRAPPER
  chmod 755 "$bundle/bin/$name"
done
rm -f "$bundle"/lib/libc.so* "$bundle"/lib/libm.so* "$bundle"/lib/ld-linux* "$bundle"/lib/libpthread.so* "$bundle"/lib/libdl.so* "$bundle"/lib/librt.so*
du -sh "$bundle" | cut -f1 | xargs echo "bundle at $bundle,"
