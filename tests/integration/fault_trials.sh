#!/usr/bin/env bash
# Builds and runs the trials of faults, fault_trials.py: tests/integration/fault_trials.sh --trials 30 --seed 1 [--longest-stop 120]
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel build --noshow_progress --ui_event_filters=-info //tests/integration:fault_trials
exec bazel-bin/tests/integration/fault_trials "$@"
