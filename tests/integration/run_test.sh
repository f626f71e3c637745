#!/bin/bash
# Runs the Python test of this program's name, wherever it is, with the arguments of this one, on the four programs side by side in a
# folder of their own: they look for each other beside /proc/self/exe, so links will not do.
set -euo pipefail
[[ -d $0.runfiles ]] && cd "$0.runfiles/${TEST_WORKSPACE:-medley}"
if [[ -z ${TEST_TMPDIR:-} ]]; then
  export TEST_TMPDIR=$(mktemp -d)
  trap 'rm -rf "$TEST_TMPDIR"' EXIT
fi
export MEDLEY_BINARIES=$TEST_TMPDIR/programs
mkdir -p "$MEDLEY_BINARIES"
for program in cli/medley coordinator/daemon/medley-coordinator agent/daemon/medley-agent \
    agent/worker/medley-worker; do
  cp -fL "$program" "$MEDLEY_BINARIES/"
done
# Where its calls and subprocesses come in turn, grpcio's preparation for a fork may wait for ever; what is started execs at once.
export GRPC_ENABLE_FORK_SUPPORT=0
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONPATH=$PWD/tests/integration UCX_LOG_LEVEL=${UCX_LOG_LEVEL:-error}
python3 "$(find -L . -name "$(basename "$0").py" -print -quit)" "$@"
