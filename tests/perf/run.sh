#!/usr/bin/env bash
# Runs one benchmark and prints `key value` lines; lines that begin with # are notes. RESULTS.md has what was measured.
#   tests/perf/run.sh step            GPT-2 124M on all cores: efficiency, and against PyTorch; longer sequences, Llama, bf16
#   tests/perf/run.sh heterogeneity   unlike devices of several kinds, one job: efficiency, what could be, and predictions;
#                                     --groups, --only: parts of it; --with-load: beside a busy process
#   tests/perf/run.sh parallel        two cores that share every layer against one, and other ways to use them; predictions
#   tests/perf/run.sh planner [DATA]  planning times of up to 16 devices; of small problems also how far from the best of all plans;
#                                     then classes [DATA], with the planner's memory; planner NAME: of up to 16, those so named
#   tests/perf/run.sh classes [DATA [WHICH]]   of 64 to 10,000 devices; DATA: against plans that other planners published, by
#                                     Sailor's simulator, too, where SAILOR_PATH/sailor is a check-out of it
#   tests/perf/run.sh schedules       what synthesised orders are predicted to gain on uneven pipelines
#   tests/perf/run.sh orders          the same run by emulated devices: against predictions, and against 1F1B
#   tests/perf/run.sh memory [WHICH]  what plans are predicted to take of memory against what allocators count; WHICH: of the
#                                     kinds of jobs and devices whose names have that in them; without it, or with
#                                     "offload", also what a model of four times a device's memory costs
#   tests/perf/run.sh scale           a coordinator with a thousand simulated agents: registration, leases, answers, CPU and memory;
#                                     scale --agents 4096 has the most that it takes (1024 without; --devices 8, --seconds 10);
#                                     without arguments, or with "workers", also 256 workers that train: scale workers --workers 256
#   tests/perf/run.sh control         the control plane with TLS: a thousand simulated agents, as scale; a plan that is sent to all of them;
#                                     and from a job's submission to its first step
#   tests/perf/run.sh links           latency and bandwidth of the transport
#   tests/perf/run.sh comm [PART...]  the communicator against ucx_perftest, Open MPI and Gloo; parts: p2p allreduce links
#                                     hierarchical overlap; all without
#   tests/perf/run.sh protection [--quick]   messages with checksums and encrypted against plain ones: on a thread and over TCP
#   tests/perf/run.sh prediction --data DIR [--judge TABLE] [--as-shipped] [--rows] [--only PART]
#                                     predictions against published step times and memory of hardware that is not here; DIR
#                                     has validation.csv and profiles/zorse, prediction/README.md says how
#   tests/perf/run.sh gpu             GPT-2 and Llama on an NVIDIA GPU, bf16, against PyTorch; says so where there is none
set -euo pipefail
cd "$(dirname "$0")/../.."
name=${1:-}
shift || true

build() { bazel build --noshow_progress --ui_event_filters=-info,-stdout,-stderr "$@" >&2 2>/dev/null || bazel build "$@" >&2; }
# The four side by side: they look for each other beside /proc/self/exe.
copy_programs() {
  for binary in cli/medley coordinator/daemon/medley-coordinator agent/daemon/medley-agent agent/worker/medley-worker; do
    install -m 755 "bazel-bin/$binary" "$1/"
  done
}
machine() { echo "# $(sed -n 's/^model name\t*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(date -u +%F), load $(cut -d' ' -f1 /proc/loadavg)"; }
# A benchmark of the name, which starts a cluster of these programs.
run_on_cluster() {
  local benchmark=$1
  shift
  build //:medley
  directory=$(mktemp -d "/tmp/medley-$benchmark-XXXXXX")
  trap 'rm -rf "$directory"' EXIT
  mkdir "$directory/bin"
  copy_programs "$directory/bin"
  if [ "$benchmark" = heterogeneity ]; then
    build //tests/perf:lockstep
    install -m 755 bazel-bin/tests/perf/lockstep "$directory/bin/"
  fi
  python3 "tests/perf/$benchmark.py" --binaries "$directory/bin" --directory "$directory/run" "$@"
}

# [DATA [WHICH]]: plans by classes of devices; of the clusters that others published, too.
plans_by_classes() {
  if [ $# = 0 ]; then
    bazel-bin/coordinator/planner/classes/class_benchmark
    return
  fi
  bazel-bin/coordinator/planner/classes/class_benchmark "$@" | PYTHONDONTWRITEBYTECODE=1 python3 tests/perf/sailor_simulated.py "$1"
  [ $# != 1 ] || bazel-bin/tests/perf/prediction/zorse_clusters "$1"
}

case $name in
  step)
    deploy/install-packages.sh tests/perf/apt-packages.txt >&2
    build //tests/perf:step_benchmark
    machine
    # Where this machine can build for CUDA; no GPU is needed.
    if bazel query //tests/perf:host_waits > /dev/null 2>&1; then
      build //tests/perf:host_waits
      bazel-bin/tests/perf/host_waits
    fi
    ours=$(bazel-bin/tests/perf/step_benchmark "$@")
    echo "$ours"
    torch=$(/usr/bin/python3 tests/perf/torch_step.py)
    echo "$torch"
    # The machine's speed drifts: ours once more, and the mean of both against PyTorch between them.
    again=$(bazel-bin/tests/perf/step_benchmark "$@" --steps 1)
    printf '%s\n%s\n%s\n' "$ours" "$torch" "$again" | awk '
      $1 == "tokens_per_second" { ours += $2; n++ }
      $1 == "torch_tokens_per_second" { torch = $2 }
      END { printf "torch_ratio_f32 %.2f\n", ours / n / torch }'
    # The same for other shapes; bf16 where the processor multiplies it.
    precisions="f32"
    grep -qwE "amx_bf16|avx512_bf16" /proc/cpuinfo && precisions="f32 bf16"
    for precision in $precisions; do
      for shape in "gpt2-124m 512" "gpt2-124m 1024" "llama-110m 512" "llama-110m 1024"; do
        read -r model sequence <<< "$shape"
        [ "$precision $shape" = "f32 gpt2-124m 512" ] && continue
        bazel-bin/tests/perf/step_benchmark --model "$model" --sequence "$sequence" --precision "$precision" --batch 2 --steps 2 |
          awk -v name="${model//-/_}_$sequence" '/kernel_efficiency|tokens_per_second/ { print $1 "_" name, $2 }
            $1 == "peak_memory_bytes" { peak = $2 } $1 == "memory_model_bytes" { printf "peak_memory_ratio_%s %.3f\n", name, peak / $2 }'
      done
    done
    ;;
  heterogeneity | parallel | orders)
    machine
    run_on_cluster "$name" "$@"
    ;;
  planner)
    data=()
    if [ -d "${1:-}" ]; then
      data=("$1")
      shift
    fi
    build //coordinator/planner:planner_benchmark //coordinator/planner:regret_benchmark \
      //coordinator/planner/classes:class_benchmark //tests/perf/prediction:zorse_clusters
    machine
    bazel-bin/coordinator/planner/planner_benchmark "$@"
    if [ $# = 0 ]; then
      bazel-bin/coordinator/planner/regret_benchmark
      plans_by_classes "${data[@]}"
    fi
    ;;
  classes)
    build //coordinator/planner/classes:class_benchmark //tests/perf/prediction:zorse_clusters
    machine
    plans_by_classes "$@"
    ;;
  schedules)
    build //tests/perf:schedule_benchmark
    machine
    bazel-bin/tests/perf/schedule_benchmark
    ;;
  memory)
    which=${1:-}
    build //tests/perf:memory_benchmark
    machine
    [ "$which" = offload ] || bazel-bin/tests/perf/memory_benchmark "$@"
    if [ -z "$which" ] || [ "$which" = offload ]; then
      shift || true
      run_on_cluster offload "$@"
    fi
    ;;
  scale)
    which=${1:-}
    build //tests/perf:scale_benchmark //coordinator/daemon:medley-coordinator
    machine
    if [ "$which" != workers ]; then
      directory=$(mktemp -d /tmp/medley-scale-XXXXXX)
      trap 'rm -rf "$directory"' EXIT
      bazel-bin/tests/perf/scale_benchmark --coordinator bazel-bin/coordinator/daemon/medley-coordinator --directory "$directory" "$@"
      rm -rf "$directory"
    fi
    if [ -z "$which" ] || [ "$which" = workers ]; then
      shift || true
      run_on_cluster workers "$@"
    fi
    ;;
  control)
    build //tests/perf:scale_benchmark //tests/perf:plan_push_benchmark //coordinator/daemon:medley-coordinator
    machine
    directory=$(mktemp -d /tmp/medley-control-XXXXXX)
    trap 'rm -rf "$directory"' EXIT
    for benchmark in scale plan_push; do
      mkdir "$directory/$benchmark"
      "bazel-bin/tests/perf/${benchmark}_benchmark" --coordinator bazel-bin/coordinator/daemon/medley-coordinator \
        --directory "$directory/$benchmark" --agents 1000 --tls
    done
    rm -rf "$directory"
    run_on_cluster control
    ;;
  links)
    build //comm/perf:link_benchmark
    machine
    bazel-bin/comm/perf/link_benchmark "$@"
    ;;
  comm)
    deploy/install-packages.sh tests/perf/apt-packages.txt >&2
    build //:medley //comm/perf:p2p_benchmark //comm/collective:all_reduce_benchmark //comm/probe:link_model_benchmark \
      //tests/integration:collective_peer
    machine
    export UCX_LOG_LEVEL=${UCX_LOG_LEVEL:-error} PYTHONDONTWRITEBYTECODE=1
    for part in ${*:-p2p allreduce links hierarchical overlap}; do
      case $part in
        p2p) tests/perf/comm/point_to_point.py --benchmark bazel-bin/comm/perf/p2p_benchmark ;;
        allreduce) tests/perf/comm/all_reduce.py --benchmark bazel-bin/comm/collective/all_reduce_benchmark ;;
        links) tests/perf/comm/link_models.py --benchmark bazel-bin/comm/probe/link_model_benchmark ;;
        hierarchical) tests/perf/comm/hierarchical.py --peer "$PWD/bazel-bin/tests/integration/collective_peer" ;;
        overlap)
          directory=$(mktemp -d /tmp/medley-overlap-XXXXXX)
          trap 'rm -rf "$directory"' EXIT
          copy_programs "$directory"
          tests/perf/comm/overlap.py --binaries "$directory"
          ;;
        *)
          echo "comm has no part \"$part\"; it has: p2p allreduce links hierarchical overlap" >&2
          exit 2
          ;;
      esac
    done
    ;;
  protection)
    build //comm/protected:protection_benchmark
    machine
    bazel-bin/comm/protected/protection_benchmark "$@"
    ;;
  prediction)
    build //tests/perf/prediction:prediction_benchmark
    machine
    bazel-bin/tests/perf/prediction/prediction_benchmark "$@"
    ;;
  gpu)
    build //tests/perf:step_benchmark
    machine
    tests/perf/gpu.sh bazel-bin/tests/perf/step_benchmark "$@"
    ;;
  *)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
