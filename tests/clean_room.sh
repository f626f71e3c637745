#!/usr/bin/env bash
# Runs a command of the committed tree on a Debian 12 that has nothing but its minimal base: what README promises a new machine.
#   tests/clean_room.sh [--keep] COMMAND...   e.g.  tests/clean_room.sh deploy/quickstart.sh --steps 50
#   tests/clean_room.sh --check               whether this machine can have such a room; if not, says why and exits with 1
# The room is a chroot by debootstrap in a new folder of $TMPDIR (/tmp), with the machine's own package sources, a clone of HEAD
# and an empty environment, in process and mount namespaces of its own. Needs root. Exits as COMMAND does (125: there was no
# room). Everything is removed afterwards, with --keep all but the folder, whose path is printed; what a room that was killed
# has left in its folder, the next one removes.
set -euo pipefail
self=$(readlink -f "$0")
say() { echo "clean room: $*" >&2; }

# What runs inside, as process 1 of the room: whatever it leaves running or mounted ends with it.
if [ "${1:-}" = --inside ]; then
  room=$2; shift 2
  mount --make-rprivate /
  mount --bind "$room" "$room"  # its root is a mount point, which network namespaces ask for
  mkdir -p "$room"/{proc,sys,dev}
  mount -t proc proc "$room/proc"
  mount --rbind /sys "$room/sys"
  mount --rbind /dev "$room/dev"
  mkdir -p "$room/dev/shm"
  mount -t tmpfs -o mode=1777 tmpfs "$room/dev/shm"
  status=0
  chroot "$room" /usr/bin/env -i HOME=/root USER=root LANG=C.UTF-8 CI=true \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /bin/bash -c 'cd /src/medley && exec "$@"' room "$@" </dev/null || status=$?
  exit $status
fi

# The lines of a sources.list: Debian 12's archive as this machine knows it.
sources() {
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk '$4 == "main" && ($3 == "bookworm" || $3 == "bookworm-updates" || $3 == "bookworm-security")' | sort -u
}
# Why there can be no room here; nothing if there can.
objection() {
  [ "$(id -u)" = 0 ] || { echo "it needs root"; return; }
  for program in apt-get unshare setpriv git flock pkill; do
    command -v $program >/dev/null || { echo "there is no program $program"; return; }
  done
  [ -n "$(sources)" ] || { echo "this machine has no package sources of Debian 12 (bookworm)"; return; }
  unshare --mount --pid --fork true 2>/dev/null || { echo "namespaces are not permitted"; return; }
  command -v debootstrap >/dev/null || { apt-get update && apt-get install -y --no-install-recommends debootstrap; } \
    >/dev/null 2>&1 || echo "debootstrap is not there and cannot be installed"
}

keep=no
case ${1:-} in
  -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --check) why=$(objection); [ -z "$why" ] || { echo "$why"; exit 1; }; exit 0 ;;
  --keep) keep=yes; shift ;;
  -*) say "$1: no such option; see --help"; exit 125 ;;
esac
[ $# -gt 0 ] || { say "which command? see --help"; exit 125; }
why=$(objection)
[ -z "$why" ] || { say "$why"; exit 125; }

# Rooms whose lock nobody holds are of runs that were killed. Their mounts went with their namespaces.
folder=${TMPDIR:-/tmp}
for left in "$folder"/medley-clean-room.*; do
  [ -d "$left" ] && [ ! -e "$left/keep" ] && [ -e "$left/lock" ] && flock --nonblock "$left/lock" true || continue
  rm -rf --one-file-system "$left"
done
top=$(mktemp -d "$folder/medley-clean-room.XXXXXX")
room=$top/room
child=
finish() {
  trap - EXIT INT TERM HUP
  # By the end of process 1 of the room all others of it have ended, too.
  [ -z "$child" ] || { pkill -KILL -P "$child" || kill -KILL "$child"; wait "$child"; } 2>/dev/null || true
  if [ $keep = yes ]; then touch "$top/keep"; say "kept $room"; else rm -rf --one-file-system "$top"; fi
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
exec 9> "$top/lock"
flock 9

# In namespaces of its own, whose processes and mounts end with it, and it with this script, even where that is killed; in the
# background, so that a signal is heard at once.
alone() {
  setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL --mount-proc -- "$@" 9>&- &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=
  return $status
}

mkdir "$room"
mirror=$(sources | awk '$3 == "bookworm" { print $2; exit }')
alone debootstrap --variant=minbase bookworm "$room" "$mirror" >"$top/debootstrap.log" 2>&1 ||
  { tail -n 20 "$top/debootstrap.log" >&2; say "debootstrap failed"; exit 125; }
sources > "$room/etc/apt/sources.list"
# How this machine reaches its sources.
apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)' > "$room/etc/apt/apt.conf.d/90machine" || true
[ ! -d /etc/ssl/certs ] || { mkdir -p "$room/etc/ssl" && cp -rL /etc/ssl/certs "$room/etc/ssl/" 2>/dev/null || true; }
for file in /etc/resolv.conf /etc/hosts; do [ ! -e $file ] || cp -L $file "$room/etc/"; done
mkdir -p "$room/src"
git -c safe.directory='*' clone -q --no-local "$(dirname "$self")/.." "$room/src/medley"
status=0
alone bash "$self" --inside "$room" "$@" || status=$?
exit $status
