#!/bin/bash
# Runs client_test.py with the package as it is built, on the four programs side by side in a folder of their own: they look for
# each other beside /proc/self/exe, so links will not do.
set -euo pipefail
[[ -d $0.runfiles ]] && cd "$0.runfiles/${TEST_WORKSPACE:-medley}"
if [[ -z ${TEST_TMPDIR:-} ]]; then
  export TEST_TMPDIR=$(mktemp -d)
  trap 'rm -rf "$TEST_TMPDIR"' EXIT
fi
export MEDLEY_BINARIES=$TEST_TMPDIR/programs
mkdir -p "$MEDLEY_BINARIES" "$TEST_TMPDIR/package"
for program in cli/medley coordinator/daemon/medley-coordinator agent/daemon/medley-agent agent/worker/medley-worker; do
  cp -fL "$program" "$MEDLEY_BINARIES/"
done
tar -C "$TEST_TMPDIR/package" -xf clients/python/medley-python.tar
export PYTHONPATH=$TEST_TMPDIR/package:$PWD/tests/integration
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 UCX_LOG_LEVEL=${UCX_LOG_LEVEL:-error}
# Without the folder of the test, in which the package has no messages.
python3 -P clients/python/client_test.py "$@"
