#!/bin/bash
# Runs network_collectives_test.py where Bazel puts what it needs.
set -euo pipefail
[[ -d $0.runfiles ]] && cd "$0.runfiles/${TEST_WORKSPACE:-medley}"
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 UCX_LOG_LEVEL=${UCX_LOG_LEVEL:-error}
exec python3 tests/integration/network_collectives_test.py "$@"
