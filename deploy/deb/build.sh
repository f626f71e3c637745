#!/usr/bin/env bash
# Makes three Debian packages of the programs, medley-coordinator, medley-agent and medley; from the same programs the same bytes.
#   deploy/deb/build.sh [--output DIR] [--binaries DIR] [--version VERSION]
#     --output DIR        where the packages are put (.medley/deb)
#     --binaries DIR      the four finished programs; without it, Bazel builds them
#     --version VERSION   of the packages; begins with the version that medley says of itself. Without it: that version, if the
#                         commit has its tag (v0.2); otherwise the commit's time and name follow (0.2+git20260131120000.1a2b3c4)
# Everything in the packages bears the time of the commit, or SOURCE_DATE_EPOCH. Who maintains them: DEBFULLNAME and DEBEMAIL.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() { echo "build.sh: $*" >&2; exit 1; }
umask 022
export LC_ALL=C TZ=UTC

output=$root/.medley/deb binaries='' version=''
while [ $# -gt 0 ]; do
  case $1 in
    --output) output=${2:?--output needs a folder}; shift 2 ;;
    --binaries) binaries=${2:?--binaries needs a folder}; shift 2 ;;
    --version) version=${2:?--version needs a version}; shift 2 ;;
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "build.sh: $1: no such option; see --help" >&2; exit 2 ;;
  esac
done
for program in dpkg-deb dpkg-shlibdeps strip python3; do
  command -v $program >/dev/null || fail "there is no program $program; deploy/install-packages.sh installs what is missing"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$output" "$work/programs"

# The programs, without what only a debugger reads.
declare -A built=([medley]=cli [medley-coordinator]=coordinator/daemon [medley-agent]=agent/daemon [medley-worker]=agent/worker)
[ -n "$binaries" ] || (cd "$root" && bazel build --ui_event_filters=-info //:medley) || fail "Bazel did not build the programs"
for program in "${!built[@]}"; do
  from=${binaries:-$root/bazel-bin/${built[$program]}}/$program
  [ -x "$from" ] || fail "$from is no program"
  install -m 755 "$from" "$work/programs/"
  strip --strip-unneeded --remove-section=.comment --remove-section=.note "$work/programs/$program"
done

# The version and the time.
said=$("$work/programs/medley" --version) && said=${said#medley } && [ -n "$said" ] || fail "medley --version does not say its version"
commit() { git -C "$root" log -1 --abbrev=7 --date=format-local:%Y%m%d%H%M%S --format="$1" 2>/dev/null ||
  fail "$root is no git checkout; give --version and SOURCE_DATE_EPOCH"; }
[ -n "${SOURCE_DATE_EPOCH:-}" ] || SOURCE_DATE_EPOCH=$(commit %ct)
export SOURCE_DATE_EPOCH
if [ -z "$version" ]; then
  version=$said
  changed=$(git -C "$root" status --porcelain --untracked-files=no 2>/dev/null || true)
  if [ -n "$changed" ] || ! git -C "$root" tag --points-at HEAD 2>/dev/null | grep -qx "v$said"; then
    version=$said+git$(commit %cd.%h)${changed:+.changed}
  fi
fi
[[ $version == "$said" || $version == "$said"[.+~-]* ]] || fail "--version: \"$version\" does not begin with $said, the programs' version"
dpkg --validate-version "$version" 2>/dev/null || fail "--version: \"$version\" is no version of a Debian package"
maintainer="${DEBFULLNAME:-Medley maintainers} <${DEBEMAIL:-maintainers@medley.invalid}>"
architecture=$(dpkg --print-architecture)

# fill FILE [NAME VALUE]...: its text, each @NAME@ replaced.
fill() {
  local text
  text=$(cat "$1"); shift
  while [ $# -gt 0 ]; do text=${text//@$1@/"$2"}; shift 2; done
  printf '%s\n' "$text"
}
# put MODE PACKAGE PATH: standard input becomes a file of the package.
put() {
  mkdir -p "$(dirname "$work/debian/$2/$3")"
  cat > "$work/debian/$2/$3"
  chmod "$1" "$work/debian/$2/$3"
}
# put_program PACKAGE PROGRAM [FOLDER]: all lie in one folder, where they look for each other; FOLDER has a link for people.
put_program() {
  put 755 "$1" "usr/lib/medley/$2" < "$work/programs/$2"
  [ -z "${3:-}" ] || { mkdir -p "$work/debian/$1/$3" && ln -s "../lib/medley/$2" "$work/debian/$1/$3/$2"; }
}
put_manual() {  # PACKAGE SECTION TEMPLATE
  python3 "$here/man_page.py" --program "$work/programs/medley" --proto "$root/proto/medley/v1" "$here/$3" \
    "date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)" "version=$version" | gzip -9n |
    put 644 "$1" "usr/share/man/man$2/$1.$2.gz"
}
put_daemon() {  # NAME: what medley-NAME has beside its programs
  local package=medley-$1 script
  put 644 "$package" "etc/medley/$1.yaml" < "$here/$1/$1.yaml"
  echo "/etc/medley/$1.yaml" | put 644 "$package" DEBIAN/conffiles
  put 644 "$package" "lib/systemd/system/$package.service" < "$here/$1/$package.service"
  put_manual "$package" 8 "$1/$package.8.in"
  for script in postinst prerm postrm; do fill "$here/daemon/$script" name "$1" | put 755 "$package" "DEBIAN/$script"; done
}
# finish PACKAGE FOLDER: its papers and control file, and then the package itself. FOLDER has its control file's template.
finish() {
  local package=$1 tree=$work/debian/$1 depends size
  mkdir -p "$tree/DEBIAN"
  fill "$here/copyright" | put 644 "$package" "usr/share/doc/$package/copyright"
  printf '%s\n' "medley ($version) unstable; urgency=medium" '' '  * Packages of this version of the programs.' '' \
    " -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n | put 644 "$package" "usr/share/doc/$package/changelog.gz"
  depends=$(cd "$work" && dpkg-shlibdeps --warnings=1 -O debian/"$package"/usr/lib/medley/*) ||
    fail "the libraries of $package's programs are not of installed packages"
  size=$(cd "$tree" && find . -path ./DEBIAN -prune -o -printf '%y %s\n' |
    awk '{ kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print kib }')
  (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) | put 644 "$package" DEBIAN/md5sums
  fill "$here/$2/control" version "$version" architecture "$architecture" maintainer "$maintainer" size "$size" \
    libraries "${depends#shlibs:Depends=}" | put 644 "$package" DEBIAN/control
  find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  # One thread: what xz writes depends on how many there are.
  dpkg-deb --root-owner-group -Zxz -z6 --threads-max=1 --build "$tree" "$output/${package}_${version}_$architecture.deb" >/dev/null
  echo "$output/${package}_${version}_$architecture.deb"
}

printf 'Source: medley\n\nPackage: medley\nArchitecture: any\n' > "$work/control"
mkdir "$work/debian" && mv "$work/control" "$work/debian/control"
put_program medley-coordinator medley-coordinator usr/sbin
put_daemon coordinator
put_program medley-agent medley-agent usr/sbin
put_program medley-agent medley-worker
put_daemon agent
put_program medley medley usr/bin
put_manual medley 1 cli/medley.1.in
medley=$work/programs/medley
"$medley" completion bash | put 644 medley usr/share/bash-completion/completions/medley
"$medley" completion zsh | put 644 medley usr/share/zsh/vendor-completions/_medley
"$medley" completion fish | put 644 medley usr/share/fish/vendor_completions.d/medley.fish
for file in "$root"/examples/*.yaml; do put 644 medley "usr/share/doc/medley/examples/${file##*/}" < "$file"; done
for file in "$root"/profiles/*.yaml; do put 644 medley "usr/share/medley/profiles/${file##*/}" < "$file"; done
for file in "$root"/proto/medley/v1/*.proto; do put 644 medley "usr/share/doc/medley/proto/${file##*/}" < "$file"; done
finish medley-coordinator coordinator
finish medley-agent agent
finish medley cli
