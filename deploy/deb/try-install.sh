#!/usr/bin/env bash
# Installs the packages as an administrator would, lets their services train a small model, upgrades, removes and purges them, and
# ends with 1 at the first thing that is not as it should be. For a Debian 12 that may be thrown away, as root:
#   deploy/deb/try-install.sh [--packages DIR]     DIR has the three packages; without it, they are built here first
# With systemd as process 1 the services run under it; without, this script runs what the units say, as their users.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
fail() { echo "try-install.sh: $*" >&2; exit 1; }
say() { printf '\n== %s\n' "$*"; }
check() { "${@:2}" || fail "not so: $1"; echo "ok: $1"; }
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

packages=''
case ${1:-} in
  --packages) packages=$(cd "${2:?--packages needs a folder}" 2>/dev/null && pwd) || fail "--packages: there is no folder $2" ;;
  -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
  ?*) echo "try-install.sh: $1: no such option; see --help" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || fail "it needs root"
for daemon in coordinator agent; do
  ! getent passwd medley-$daemon >/dev/null && [ ! -e /var/lib/medley/$daemon ] || fail "this machine has had medley-$daemon already"
done
work=$(mktemp -d)
chmod 755 "$work"
pids=()
finish() { for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done; rm -rf "$work" /srv/training-trial; }
trap finish EXIT
if [ -z "$packages" ]; then
  say "Build"
  "$root/deploy/install-packages.sh"
  packages=$work/packages
  "$root/deploy/deb/build.sh" --output "$packages"
fi
for name in medley-coordinator medley-agent medley; do
  [ "$(find "$packages" -name "${name}_*.deb" | wc -l)" = 1 ] || fail "$packages does not have one package $name"
done
with_systemd() { [ -d /run/systemd/system ]; }
install_from() { apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$1"/medley*.deb >"$work/apt.log" 2>&1 ||
  { tail -n 20 "$work/apt.log" >&2; fail "apt-get install"; }; }
installed() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null; }
wait_for() {  # WHAT COMMAND...: at most two minutes
  for _ in $(seq 1200); do "${@:2}" >/dev/null 2>&1 && return 0; sleep 0.1; done
  tail -n 20 "$work"/*.log >&2
  fail "not within two minutes: $1"
}
unit_value() { sed -n "s/^$2=//p" "/lib/systemd/system/medley-$1.service"; }
pid_of() { if with_systemd; then systemctl show -P MainPID "medley-$1"; else cat "$work/$1.pid"; fi; }
start() {  # both services, where systemd has not started them
  local daemon user
  for daemon in coordinator agent; do
    with_systemd && continue
    user=$(unit_value $daemon User)
    # shellcheck disable=SC2046  # the command line is words
    (umask "$(unit_value $daemon UMask)" && cd "$(unit_value $daemon WorkingDirectory)" &&
      exec setpriv --reuid "$user" --regid "$(unit_value $daemon Group)" --init-groups --no-new-privs --reset-env \
        $(unit_value $daemon ExecStart)) >>"$work/$daemon.log" 2>&1 &
    echo $! > "$work/$daemon.pid"
    pids+=($!)
  done
  wait_for "the agent is registered" node_is_alive
}
stop() {
  with_systemd && return
  for daemon in agent coordinator; do
    kill -TERM "$(pid_of $daemon)"
    check "medley-$daemon ends well on SIGTERM" wait "$(pid_of $daemon)"
  done
}
user() { setpriv --reuid nobody --regid nogroup --clear-groups --reset-env medley "$@"; }
node_is_alive() { user nodes --output json | grep -q '"alive": *true'; }
job_is_done() { user status "$1" --output json | grep -q '"state": *"done"'; }
owner_is() { [ "$(stat -c %U "$1")" = "$2" ]; }
# By the file that a process runs: the names of processes are cut off, and other roots may have processes of these names.
runs() { readlink /proc/[0-9]*/exe | grep -q "^/usr/lib/medley/$1"; }
runs_not() { ! runs "$1"; }
has_line() { grep -qxF "$2" "$1"; }
named_after_us() { find / -xdev \( -path "$work" -o -path "$root" \) -prune -o -name '*medley*' -print | sort; }

say "Install"
named_after_us > "$work/before"
[ -n "$(find /var/lib/apt/lists -name '*Packages*' -print -quit)" ] || apt-get update >/dev/null
install_from "$packages"
echo "version $(installed medley), libraries $(du -sh /usr/lib/medley | cut -f1)"
for daemon in coordinator agent; do
  check "medley-$daemon has a user without a shell" sh -c "getent passwd medley-$daemon | grep -q ':/usr/sbin/nologin$'"
  check "/var/lib/medley/$daemon is its user's alone" [ "$(stat -c '%U %a' /var/lib/medley/$daemon)" = "medley-$daemon 750" ]
  check "medley-$daemon.service is enabled" [ -L /etc/systemd/system/multi-user.target.wants/medley-$daemon.service ]
  with_systemd || check "medley-$daemon was not started without systemd" runs_not medley-$daemon
done
check "all libraries are there" sh -c '! ldd /usr/lib/medley/* | grep "not found"'

say "Train"
start
for daemon in coordinator agent; do check "medley-$daemon runs as its user" owner_is "/proc/$(pid_of $daemon)" medley-$daemon; done
user nodes
install -d -m 755 /srv/training-trial
install -d -m 755 -o medley-agent /srv/training-trial/checkpoints
cp /usr/share/common-licenses/GPL-3 /srv/training-trial/text
cat > /srv/training-trial/job.yaml <<'JOB'
name: trial
model: {gpt2: {layers: 2, hidden: 32, heads: 4, vocabulary: 256}}
data: {train: /srv/training-trial/text, format: text, order: shuffled}
batch: {sequences: 4, sequence_length: 32}
steps: 20
optimizer: {learning_rate: 1e-3}
checkpoint: {directory: /srv/training-trial/checkpoints, every_steps: 10}
JOB
user submit /srv/training-trial/job.yaml --watch | tee "$work/watch"
job=$(sed -n 's/^\(trial-[0-9]*\).*/\1/p' "$work/watch" | head -n 1)
check "the job $job is done" job_is_done "$job"
check "its checkpoints are the agent's" owner_is "$(find /srv/training-trial/checkpoints -name '*.safetensors' -print -quit)" medley-agent
install -d -o nobody "$work/nobody"
check "nobody in particular may export the model" user export "$job" --to "$work/nobody/model"

say "Upgrade, with one configuration file changed here and all of them in the package"
mine="log_level: debug" theirs="# New in this version."
echo "$mine" >> /etc/medley/coordinator.yaml
newer=$(installed medley)+newer
mkdir "$work/newer"
for package in "$packages"/medley*.deb; do
  dpkg-deb --raw-extract "$package" "$work/taken-apart"
  sed -i "s/^Version: .*/Version: $newer/" "$work/taken-apart/DEBIAN/control"
  for file in "$work"/taken-apart/etc/medley/*.yaml; do [ ! -e "$file" ] || echo "$theirs" >> "$file"; done
  dpkg-deb --root-owner-group --build "$work/taken-apart" "$work/newer/$(basename "$package")" >/dev/null
  rm -r "$work/taken-apart"
done
before=$(pid_of agent)
stop
install_from "$work/newer"
check "the new version is installed" [ "$(installed medley-agent)" = "$newer" ]
check "the file that was changed here is as it was" has_line /etc/medley/coordinator.yaml "$mine"
check "the other is the new version's" has_line /etc/medley/agent.yaml "$theirs"
start
! with_systemd || check "the agent was started anew" [ "$(pid_of agent)" != "$before" ]
check "the coordinator still knows the job" job_is_done "$job"
for daemon in coordinator agent; do
  check "configuring medley-$daemon again changes nothing" env DPKG_MAINTSCRIPT_PACKAGE=medley-$daemon /var/lib/dpkg/info/medley-$daemon.postinst configure "$newer"
  check "/var/lib/medley/$daemon is still its user's" owner_is /var/lib/medley/$daemon medley-$daemon
  cp /var/lib/dpkg/info/medley-$daemon.postrm "$work/"
done
wait_for "the agent is registered" node_is_alive

say "Remove"
stop
apt-get remove -y medley-coordinator medley-agent medley >"$work/apt.log" 2>&1 || fail "apt-get remove: $(tail -n 3 "$work/apt.log")"
check "no program is left" [ ! -e /usr/lib/medley ]
check "no process is left" runs_not medley-
check "configuration and state are left" [ -e /etc/medley/coordinator.yaml -a -d /var/lib/medley/coordinator ]

say "Purge"
apt-get purge -y medley-coordinator medley-agent medley >"$work/apt.log" 2>&1 || fail "apt-get purge: $(tail -n 3 "$work/apt.log")"
for daemon in coordinator agent; do
  check "purging medley-$daemon again changes nothing" env DPKG_MAINTSCRIPT_PACKAGE=medley-$daemon sh "$work/medley-$daemon.postrm" purge
  check "there is no user medley-$daemon" sh -c "! getent passwd medley-$daemon && ! getent group medley-$daemon"
done
left=$(comm -13 "$work/before" <(named_after_us))
check "no file is left${left:+, but $left}" [ -z "$left" ]
say "All is as it should be."
