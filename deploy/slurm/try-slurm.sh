#!/bin/bash
# Tries medley.sbatch under a Slurm of its own: munged, slurmctld and two slurmd of this machine, on free ports, all in a temporary
# folder. Needs the packages slurm-wlm and munge, and no root; neither /etc nor a Slurm that runs here is touched.
#   deploy/slurm/try-slurm.sh [--programs DIR] [--keep]
# A job trains over both nodes to its end; one is stopped before its time is up, requeued, and goes on; one is requeued from outside
# while it trains, and goes on from its checkpoint; one finds its nodes unfit.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# Nothing is waited for longer than this without a sign of life.
readonly PATIENCE=300

programs='' keep=no
while [ $# -gt 0 ]; do
  case $1 in
    --programs) programs=${2:?--programs needs a folder}; shift 2 ;;
    --keep) keep=yes; shift ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "try-slurm.sh: $1: there is no such option; --help shows those that there are" >&2; exit 2 ;;
  esac
done
PATH=$PATH:/usr/sbin:/sbin
for program in munged slurmctld slurmd srun sbatch scontrol scancel squeue python3; do
  command -v "$program" > /dev/null || { echo "try-slurm.sh: $program is not there; Debian: apt-get install slurm-wlm munge" >&2; exit 2; }
done
[ -n "$programs" ] || programs=$(dirname "$(command -v medley || echo /nowhere/)")
for program in medley medley-coordinator medley-agent medley-worker; do
  [ -x "$programs/$program" ] || { echo "try-slurm.sh: $programs/$program is not there; say where it is with --programs" >&2; exit 2; }
done
programs=$(realpath "$programs")

work=$(mktemp -d /tmp/try-slurm.XXXXXX)  # short: paths of sockets have 108 bytes
daemons=()

clean_up() {
  local status=$? daemon
  trap '' TERM INT
  if [ -n "${daemons[1]:-}" ]; then
    scancel --quiet --user="$(id -un)" 2>/dev/null || true
    for _ in $(seq 300); do [ -n "$(squeue --noheader 2>/dev/null)" ] || break; sleep 0.2; done
  fi
  for daemon in "${daemons[@]}"; do kill "$daemon" 2>/dev/null || true; done
  wait
  if [ "$status" != 0 ]; then
    tail -n 20 "$work"/*.log "$work"/*.out >&2 || true
    echo "try-slurm.sh: failed" >&2
  fi
  [ $keep = yes ] && echo "everything is in $work" || rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() { echo "try-slurm.sh: $*" >&2; exit 1; }

# Until the command that follows succeeds; where the file does not grow for PATIENCE seconds, that was it.
await() {
  local file=$1 what=$2 size=-1 news=$SECONDS now
  shift 2
  until "$@" > /dev/null 2>&1; do
    now=$(stat -c %s "$file" 2>/dev/null || echo 0)
    [ "$now" = "$size" ] || { size=$now; news=$SECONDS; }
    [ $((SECONDS - news)) -lt $PATIENCE ] || fail "nothing for $PATIENCE s, waiting for: $what"
    sleep 0.1
  done
}

start_slurm() {
  local ports host name
  read -ra ports <<< "$(python3 -c 'import socket
held = [socket.socket() for _ in range(3)]
for one in held: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))')"
  host=$(hostname -s)
  chmod 755 "$work"
  head -c 128 /dev/urandom > "$work/munge.key"
  chmod 600 "$work/munge.key"
  mkdir "$work/state"
  cat > "$work/slurm.conf" <<CONF
ClusterName=try
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=$PATIENCE
KillWait=60
NodeName=node1 NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=1
NodeName=node2 NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=1
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
  export SLURM_CONF=$work/slurm.conf
  munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
    --log-file="$work/munged-own.log" --seed-file="$work/munged.seed" > "$work/munged.log" 2>&1 &
  daemons+=($!)
  await "$work/munged.log" "munged" test -S "$work/munge.socket"
  slurmctld -D > "$work/slurmctld.log" 2>&1 &
  daemons+=($!)
  for name in node1 node2; do
    slurmd -D -N $name > "$work/$name.log" 2>&1 &
    daemons+=($!)
  done
  await "$work/slurmctld.log" "two idle nodes" nodes_are_idle
}
nodes_are_idle() { [ "$(sinfo --noheader --Node --states=idle --format=%N | sort -u | wc -l)" = 2 ]; }

# A GPT of a few thousand parameters, its layers cut between the two nodes. NAME STEPS CHECKPOINT_EVERY
write_job() {
  cat > "$work/$1.yaml" <<JOB
name: $1
model: {gpt2: {layers: 2, hidden: 16, heads: 2, vocabulary: 256}}
data: {train: $work/train.txt, format: text, order: sequential}
batch: {sequences: 4, sequence_length: 16}
steps: $2
optimizer: {learning_rate: 1e-3, warmup_steps: 5}
checkpoint: {directory: $work/checkpoints, every_steps: $3}
plan:
  units:
    - {devices: [node1/cpu0], blocks: [{first: 0, end: 2}]}
    - {devices: [node2/cpu0], blocks: [{first: 2, end: 4}]}
  routes: [{units: [0, 1], micro_batches: 2, micro_batch_sequences: 2}]
JOB
}

# NAME, then options for medley.sbatch. The Slurm job's number is in $id.
submit() {
  local name=$1
  shift
  id=$(cd "$work" && sbatch --parsable --nodes=2 --output="$work/$name.out" "$here/medley.sbatch" --programs "$programs" \
    --directory "$work/$name" "$@" "$work/$name.yaml")
}
is() { scontrol --oneliner show job "$id" | grep -q " $1"; }
has_ended() { ! is "JobState=\(PENDING\|RUNNING\|COMPLETING\|REQUEUED\)"; }
exits_with() {
  await "$work/$1.out" "the end of job $id" has_ended
  is "ExitCode=$2:0" || fail "$1: did not end with status $2: $(scontrol --oneliner show job "$id" | grep -o 'JobState=[^ ]*\|ExitCode=[^ ]*' | paste -sd ' ')"
}
says() { grep -q "$2" "$work/$1.out" || fail "$1: its output does not say \"$2\""; }
# Slurm keeps requeued jobs waiting for two minutes; here they need not. But a node launches nothing of a job that was killed
# there within the same second, and then it has ended for good.
start_again() {
  local killed
  await "$work/$1.out" "job $id is back in the queue" is "JobState=PENDING"
  killed=$SECONDS
  await "$work/$1.out" "the second but one" eval '[ $((SECONDS - killed)) -ge 2 ]'
  await "$work/$1.out" "job $id starts again" eval 'scontrol update JobId=$id StartTime=now; is JobState=RUNNING'
}
# The first step of each attempt that trained, from the state that a job has left.
first_steps() {
  local coordinator
  echo "{listen_address: '127.0.0.1:0', address_file: $work/look.address, state_directory: $work/$1/state}" > "$work/look.yaml"
  rm -f "$work/look.address"
  "$programs/medley-coordinator" --config "$work/look.yaml" > "$work/look.log" 2>&1 &
  coordinator=$!
  await "$work/look.log" "a coordinator" test -s "$work/look.address"
  "$programs/medley" --coordinator "$(cat "$work/look.address")" steps "$1-1" --output json | grep -o '"step":[0-9]*\|"attempt":[0-9]*' |
    awk -F : '/step/ { step = $2 } /attempt/ && !seen[$2]++ { print step }' | paste -sd ' '
  kill $coordinator
  wait $coordinator
}

try_a_job_to_its_end() {
  write_job whole 30 10
  submit whole
  exits_with whole 0
  says whole "whole-1 done"
  for node in node1 node2; do grep -q "registered as $node " "$work/whole/run-$id/agents/$node.log" || fail "whole: no agent on $node"; done
  echo "whole: trained over two nodes to its end, status 0"
}

# A fast machine may be through before the signal comes; then with more steps. How it is stopped: `signal` or `requeue`.
try_a_requeue() {
  local how=$1 steps=1000 name reached firsts
  while :; do
    name=$how-$steps
    write_job "$name" $steps $((steps / 10))
    if [ "$how" = signal ]; then submit "$name" --requeue; else submit "$name"; fi
    await "$work/$name.out" "a checkpoint" eval "ls -d $work/checkpoints/$name-1/step-*/manifest.json || has_ended"
    if [ "$how" = signal ]; then
      scancel --batch --signal=TERM "$id" 2>/dev/null || true
    else
      scontrol requeue "$id" 2>/dev/null || true
    fi
    await "$work/$name.out" "job $id ends or is requeued" eval 'has_ended || is JobState=PENDING'
    is "Restarts=1" && break
    exits_with "$name" 0
    steps=$((steps * 4))
    [ $steps -lt 10000000 ] || fail "$how: was never stopped before its end"
  done
  start_again "$name"
  exits_with "$name" 0
  says "$name" "restart 1"
  says "$name" "$name-1 done"
  firsts=$(first_steps "$name")
  reached=$(sed -n 's/.*with a checkpoint of step \([0-9]*\);.*/\1/p' "$work/$name.out")
  case $how:$firsts in
    signal:"1 $((${reached:-0} + 1))") ;;
    requeue:1\ *1) [ $(((${firsts#1 } - 1) % (steps / 10))) = 0 ] && [ "${firsts#1 }" -gt 1 ] || fail "$name: attempts began with steps $firsts" ;;
    *) fail "$name: attempts began with steps $firsts, and the checkpoint was of step ${reached:-none}" ;;
  esac
  echo "$how: of $steps steps, after the requeue from step ${firsts#1 } on to the end, status 0"
}

try_an_unfit_node() {
  write_job unfit 30 10
  mkdir "$work/broken"
  cp "$programs"/medley{,-coordinator,-agent} "$work/broken"
  programs=$work/broken submit unfit
  exits_with unfit 3
  says unfit "medley.sbatch: node node[12]: $work/broken/medley-worker is not there"
  echo "unfit: $(grep -m 1 'is not there' "$work/unfit.out"), status 3"
}

start_slurm
yes 'In the beginning was the word, and it was learned by machines that had nothing in common.' | head -c 200000 > "$work/train.txt" || true
try_a_job_to_its_end
try_a_requeue signal
try_a_requeue requeue
try_an_unfit_node
echo "try-slurm.sh: all four did what they should, under $(slurmctld -V)"
