#!/usr/bin/env bash
# Installs what is needed, builds everything and runs every test. Ends with a line "N passed, N failed", behind which stands
# ", N skipped" where this machine lacks what some test is for; which and why is listed before it. Exits with 0 if nothing failed.
#   tests/run.sh                    all tests
#   tests/run.sh --minutes 80       what has not ended by then has failed (60 and more are needed where nothing is built yet)
#   tests/run.sh --everything       also installs what some tests are skipped without (tests/apt-packages.txt)
#   tests/run.sh --config=asan      the same with a sanitizer (asan, ubsan, tsan); further arguments go to bazel
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
limit=() lists=()
if [ "${1:-}" = --everything ]; then
  lists=(tests/apt-packages.txt)
  shift
fi
case ${1:-} in
  -h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --minutes)
    case ${2:-} in ''|*[!0-9]*|0) echo "--minutes: \"${2:-}\" is not a whole number above 0" >&2; exit 2 ;; esac
    limit=(timeout --foreground --signal=INT --kill-after=2m "$2m"); shift 2 ;;
esac
deploy/install-packages.sh "${lists[@]}" || { echo "0 passed, 1 failed"; exit 1; }

kernels/cuda/toolkit_notice.sh
events=$(mktemp)
trap 'rm -f "$events"' EXIT
# On a terminal Bazel draws a bar; elsewhere a line now and then shows that it moves.
progress=()
[ -t 2 ] || progress=(--curses=no --show_progress_rate_limit=10)
"${limit[@]}" bazel test --keep_going "${progress[@]}" --build_event_json_file="$events" "$@" //...
python3 tests/test_summary.py "$events" $?
