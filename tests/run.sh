#!/usr/bin/env bash
# Installs what is needed, builds everything and runs every test. Ends with a line "N passed, N failed".
#   tests/run.sh                    all tests
#   tests/run.sh --config=asan      the same with a sanitizer (asan, ubsan, tsan); further arguments go to bazel
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
deploy/install-packages.sh || { echo "0 passed, 1 failed"; exit 1; }

kernels/cuda/toolkit_notice.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bazel test --keep_going --noshow_progress "$@" //... 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

# A line a test: "//path:name   PASSED in 0.1s", "(cached) PASSED", "FAILED", "TIMEOUT", "NO STATUS", "FLAKY".
passed=$(grep -cE '^//[^ ]+ +(\(cached\) )?(PASSED|FLAKY)' "$log")
failed=$(grep -cE '^//[^ ]+ +(\(cached\) )?(FAILED|TIMEOUT|NO STATUS|REMOTE FAILURE)' "$log")
[ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1  # the build itself
echo "$passed passed, $failed failed"
[ "$status" = 0 ]
