#!/usr/bin/env bash
# From a fresh clone on Debian 12 to a GPT trained on three unlike devices of this machine, in minutes: installs packages,
# builds, starts a coordinator and three agents, measures, plans, trains on the King James Bible, shows predicted beside
# measured, exports the model and lets it speak. Everything it writes lies in .medley/quickstart. Run again, it begins anew: it
# removes what the last run has left, but for the programs.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
usage() {
  cat <<'USAGE'
usage: deploy/quickstart.sh [--steps N] [--skip-install]
  --steps N        optimizer steps (300)
  --skip-install   do not look at the Debian packages
USAGE
}
steps=300 install=yes
while [ $# -gt 0 ]; do
  case $1 in
    --steps) steps=${2:-}; shift $(($# > 1 ? 2 : 1)) ;;
    --skip-install) install=no; shift ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
case $steps in ''|*[!0-9]*|0) echo "--steps: \"$steps\" is not a whole number above 0" >&2; exit 2 ;; esac

say() { printf '\n== %s\n' "$*"; }
work=$root/.medley/quickstart
bin=$work/bin
mkdir -p "$work" "$bin"

if [ $install = yes ]; then
  say "Packages (deploy/apt-packages.txt)"
  deploy/install-packages.sh
fi

say "Build (about five minutes the first time)"
# On a terminal Bazel draws a bar; elsewhere a line now and then shows that it moves.
progress=()
[ -t 2 ] || progress=(--curses=no --show_progress_rate_limit=10)
bazel build "${progress[@]}" --ui_event_filters=-info //:medley
for binary in cli/medley coordinator/daemon/medley-coordinator agent/daemon/medley-agent agent/worker/medley-worker; do
  [ -x "bazel-bin/$binary" ] || { echo "bazel-bin/$binary was not built; run: bazel build //:medley" >&2; exit 1; }
  install -m 755 "bazel-bin/$binary" "$bin/"
done
PATH=$bin:$PATH

# What the last run has left: its cluster's state, its jobs' checkpoints, its model.
if [ -e "$work/up/coordinator.address" ] && MEDLEY_COORDINATOR=$(cat "$work/up/coordinator.address") medley nodes >/dev/null 2>&1; then
  echo "a cluster runs on $work/up; end it first (Ctrl-C where it was started)" >&2
  exit 1
fi
rm -rf "$work/up" "$work/checkpoints" "$work/model"

say "Text: the King James Bible, nine tenths to train on, one to validate"
bible -f gen1:1-rev22:21 > "$work/bible.txt"
bytes=$(stat -c %s "$work/bible.txt")
head -c $((bytes * 9 / 10)) "$work/bible.txt" > "$work/train.txt"
tail -c $((bytes / 10)) "$work/bible.txt" > "$work/validation.txt"

# Three devices as unlike as this processor can make them, each limited to an instruction set, a core and a memory of its own.
if grep -q -m1 amx_bf16 /proc/cpuinfo; then variants=(amx avx512 avx2)
elif grep -q -m1 avx512bw /proc/cpuinfo; then variants=(avx512 avx2 sse41)
else variants=(avx2 sse41 sse41)
fi
mapfile -t cores < <(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done)
core() { echo "${cores[$(( $1 < ${#cores[@]} ? $1 : ${#cores[@]} - 1 ))]}"; }
memories=(1GiB 512MiB 256MiB)
{
  echo "coordinator: {listen_address: 127.0.0.1:0}"
  echo "agents:"
  for i in 0 1 2; do
    echo "  - name: node$i-${variants[$i]}"
    echo "    devices:"
    echo "      - {name: cpu0, backend: cpu, variant: ${variants[$i]}, cores: [$(core $i)], memory_bytes: ${memories[$i]}}"
  done
} > "$work/cluster.yaml"
sed -e "s|/tmp/bible.txt|$work/train.txt|" -e "s|/tmp/bible-validation.txt|$work/validation.txt|" \
    -e "s|/tmp/medley-checkpoints|$work/checkpoints|" -e "s|^steps:.*|steps: $steps|" examples/bible.yaml > "$work/job.yaml"

say "A coordinator and three agents"
medley up --config "$work/cluster.yaml" --directory "$work/up" > "$work/up.log" 2>&1 &
up=$!
trap 'kill $up 2>/dev/null; wait $up 2>/dev/null || true' EXIT
for _ in $(seq 300); do
  grep -q '^Ready' "$work/up.log" && break
  kill -0 $up 2>/dev/null || { cat "$work/up.log" >&2; exit 1; }
  sleep 0.1
done
MEDLEY_COORDINATOR=$(cat "$work/up/coordinator.address")
export MEDLEY_COORDINATOR
medley nodes

say "Profile the devices, predict, plan (medley plan --explain)"
medley plan "$work/job.yaml" --explain

say "Train (medley submit, medley watch)"
job=$(medley submit "$work/job.yaml")
medley watch "$job"

say "Predicted and measured"
medley status "$job"
medley trace "$job" -o "$work/trace.json"

say "Export in Hugging Face format, and speak"
medley export "$job" --to "$work/model"
ls -l "$work/model"
medley generate --model "$work/model" --prompt "And God said" --tokens 240

say "Done. Start this cluster again, with its jobs and profiles: $bin/medley up --config $work/cluster.yaml --directory $work/up"
