#!/usr/bin/env bash
# Builds the programs of another commit beside this tree's, and runs both together, skew_trials.py:
#   tests/integration/skew_trials.sh [COMMIT]      COMMIT: the older one; the parent of HEAD by default
set -euo pipefail
cd "$(dirname "$0")/../.."
given=${1:-HEAD^}
if (($# > 1)) || ! commit=$(git rev-parse --quiet --verify "$given^{commit}"); then
  echo "skew_trials.sh: $given: one COMMIT of this repository is wanted" >&2
  exit 2
fi
folder=$(mktemp -d)
source=$folder/source

clean_up() {
  if [[ -d $source ]]; then
    (cd "$source" && bazel --output_base="$folder/bazel" shutdown) || true
    git worktree remove --force "$source" || true
  fi
  chmod -R u+w "$folder"  # Bazel's outputs are read-only
  rm -rf "$folder"
}
trap clean_up EXIT

# In the working directory, with further options of Bazel's; into the folder $1, since programs look for each other beside themselves.
build() {
  local into=$1 program
  local programs=(agent/daemon/medley-agent agent/worker/medley-worker cli/medley coordinator/daemon/medley-coordinator)
  bazel "${@:2}" build --noshow_progress --ui_event_filters=-info //agent/daemon:medley-agent //agent/worker:medley-worker //cli:medley \
    //coordinator/daemon:medley-coordinator
  mkdir "$into"
  for program in "${programs[@]}"; do cp -fL "bazel-bin/$program" "$into/"; done
}

build "$folder/new"
git worktree add --quiet --detach "$source" "$commit"
(cd "$source" && build "$folder/old" --output_base="$folder/bazel")
echo "old: $(git log -1 --format='%h %s' "$commit"); new: this tree, on $(git log -1 --format='%h %s')"
export MEDLEY_BINARIES=$folder/new PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 UCX_LOG_LEVEL=${UCX_LOG_LEVEL:-error}
/usr/bin/python3 tests/integration/skew_trials.py "$folder/old"
