#!/usr/bin/env bash
# Runs the README's two commands, tools/demo.sh and tools/test.sh, in a fresh clone on a clean system.
#
#   tests/fresh_clone.sh [--no-root] [--full | --ci] [--loaded]
#
#   --full     test.sh --full
#   --ci       .ci/run instead of test.sh, with ../shared (NACRE_SHARED) beside the clone
#   --loaded   with a busy loop a processor beside them
#
# The clean system is a minimal Debian or Ubuntu of this machine's own release, made by debootstrap (root only) and
# entered with chroot. If that is not possible, or with --no-root, it is only a new HOME and an empty environment. A
# run there finds a file that was never committed, but not a package that no script installs.
#
# Passes if both commands do and the demo's line `digits: R of N right` has the numbers of digits_expected.json.
# Takes what is committed. The base system is kept (50 MB) in $XDG_CACHE_HOME or build/; delete it to renew it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$root/build}/nacre
clean_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
work=$(mktemp -d "${TMPDIR:-/tmp}/nacre-fresh.XXXXXX")
child= loops=()

finish() {
  ((${#loops[@]} == 0)) || kill "${loops[@]}" 2>/dev/null || true
  # Kills the whole process group (setsid). unshare would wait out a TERM; its --kill-child ends the namespace too.
  if [[ -n $child ]]; then
    kill -KILL -- "-$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { echo "fresh clone: $*"; }

# Lines "uri release components" of the distribution's own archives. apt is asked, because its sources come in two
# formats; names are of no use to filter by (mirrors), so the release and the component decide.
archives() {
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v suite="$suite" '($2 == suite || index($2, suite "-") == 1) && ($3 == "main" || $3 == "universe")' | sort -u
}

# Prints why there can be no clean system here, or nothing if there can be one.
obstacle() {
  [[ $option != --no-root ]] || { echo "not wanted (--no-root)"; return; }
  [[ $(id -u) == 0 ]] || { echo "not root"; return; }
  local program
  for program in debootstrap apt-get unshare chroot; do
    command -v "$program" >/dev/null || { echo "no $program"; return; }
  done
  [[ -n $suite ]] || { echo "the name of this system's release is not known"; return; }
  [[ -n $(archives) ]] || { echo "apt has no source for $suite"; return; }
  unshare --mount --pid --fork true 2>/dev/null || { echo "no right to make namespaces"; return; }
}

make_base() {
  local mirror
  mirror=$(archives | awk -v suite="$suite" '$2 == suite {print $1; exit}')
  say "making a minimal $suite with debootstrap"
  mkdir -p "$cache"
  if ! debootstrap --variant=minbase "$suite" "$work/base" "$mirror" >"$work/debootstrap.log" 2>&1; then
    tail -n 5 "$work/debootstrap.log"
    return 1
  fi
  # Removes apt's lists and archives, as in container images, so that the scripts have to fetch the lists.
  rm -rf "$work"/base/var/lib/apt/lists/* "$work"/base/var/cache/apt/*
  tar -C "$work/base" -czf "$base.part" . && mv "$base.part" "$base"  # never half a file under the final name
  rm -rf --one-file-system "$work/base"
}

# Copies how this machine reaches apt's archives and pip's index. The clean system takes over nothing else of it.
copy_network_configuration() {
  local file
  archives | sed 's/^/deb /' >"$system/etc/apt/sources.list"
  apt-config dump Acquire | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv|Languages)' \
    >"$system/etc/apt/apt.conf.d/90host" || true
  cp -rL /etc/apt/trusted.gpg.d/. "$system/etc/apt/trusted.gpg.d/" 2>/dev/null || true
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [[ ! -f $file ]] || install -D -m 644 "$file" "$system$file"
  done
  # The package ca-certificates makes its bundle anew from its own certificates and these.
  [[ ! -d /usr/local/share/ca-certificates ]] || cp -rL /usr/local/share/ca-certificates "$system/usr/local/share/"
}

# Replaces the shell by COMMAND, which runs in the clone on the clean system. The mounts are made in a namespace that
# dies with COMMAND. So none is left behind, not even by kill -9, and removing the tree afterwards cannot reach this
# machine's /dev.
inside_root() {
  exec setsid unshare --mount --pid --fork --kill-child bash -euc '
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    if [[ -n $2 ]]; then mkdir -p "$1/srv/shared"; mount --bind -o ro "$2" "$1/srv/shared"; fi
    system=$1
    shift 2
    exec chroot "$system" "$@"' inside "$system" "$shared" env -i "${environment[@]}" HOME=/root \
    bash -c "cd /srv/nacre && exec $1"
}
inside_home() {
  exec setsid env -i "${environment[@]}" HOME="$system" bash -c "cd '$system/nacre' && exec $1"
}

# Runs one of the two commands, shows its output, saves it in a file, and records the result.
run() {
  local name=$1 start=$SECONDS code=0 tee
  say "$name"
  mkfifo "$work/pipe"
  tee "$work/${name##*/}.log" <"$work/pipe" & tee=$!
  "$inside" "./$name" >"$work/pipe" 2>&1 </dev/null & child=$!
  wait "$child" || code=$?
  child=
  wait "$tee"
  rm "$work/pipe"
  seen+=("$name: exit code $code after $((SECONDS - start)) s")
  ((code == 0)) || failed=1
}

# Starts the other work of a loaded machine. It has the tests' priority, so that they get only their share.
start_loops() {
  local i
  for ((i = $(nproc); i > 0; --i)); do
    (while :; do :; done) &
    loops+=($!)
  done
  where+=", ${#loops[@]} busy loops beside"
}

# Notes the machine's load average (of one minute) every 10 s, from a minute after the start on.
watch_load() {
  (sleep 60
   while read -r load _ </proc/loadavg; do
     echo "$load" >>"$work/loads"
     sleep 10
   done) &
  loops+=($!)
}

# Prints "3.10 (1.00 to 4.50)": mean, least and largest of the recorded load averages.
load_seen() {
  sort -n "$work/loads" 2>/dev/null |
    awk '{sum += $1} NR == 1 {least = $1} END {if (NR) printf "%.2f (%.2f to %.2f)", sum / NR, least, $1; else print "not noted"}'
}

number_of() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$system_clone/tools/samples/digits_expected.json"; }

check_digits() {
  local line expected
  line=$(grep -m1 -E '^digits: [0-9]+ of [0-9]+ right' "$work/demo.sh.log" || true)
  expected="digits: $(number_of right_onnxruntime) of $(number_of test_images) right"
  seen+=("demo's line: ${line:-none}" "expected:    $expected (onnxruntime)")
  [[ $line == "$expected"* ]] || failed=1
}

option= tests=tools/test.sh shared= loaded=
for argument in "$@"; do
  case $argument in
    --no-root) option=--no-root ;;
    --full) tests="tools/test.sh --full" ;;
    --loaded) loaded=1 ;;
    --ci) tests=.ci/run shared=$(cd "${NACRE_SHARED:-$root/../shared}" && pwd) ;;
    *) echo "usage: tests/fresh_clone.sh [--no-root] [--full | --ci] [--loaded]" >&2; exit 2 ;;
  esac
done
suite=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME-}")
base=$cache/base-$suite-$(uname -m).tar.gz
environment=(PATH="$clean_path" LANG=C.UTF-8)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [[ -z ${!name-} ]] || environment+=("$name=${!name}")
done
seen=() failed=

why=$(obstacle)
if [[ -z $why && ! -f $base ]]; then
  make_base || why="debootstrap failed"
fi
if [[ -z $why ]]; then
  where="a clean $suite" inside=inside_root system=$work/system
  mkdir "$system"
  tar -C "$system" -xzf "$base"
  copy_network_configuration
  system_clone=$system/srv/nacre
else
  say "no clean system: $why. Instead: a new HOME and an empty environment on this one"
  where="this system" inside=inside_home system=$work/home
  mkdir "$system"
  system_clone=$system/nacre
  [[ -z $shared ]] || ln -s "$shared" "$system/shared"
fi

git clone --quiet --no-hardlinks "$root" "$system_clone"
uncommitted=$(git -C "$root" status --porcelain | wc -l)
((uncommitted == 0)) || say "$uncommitted changes that are not committed are not in the clone"

[[ -z $loaded ]] || start_loops
watch_load
run tools/demo.sh
run "$tests"
check_digits
seen+=("load average on $(nproc) processors: $(load_seen)")

say "$(git -C "$system_clone" rev-parse --short HEAD) on $where"
printf '    %s\n' "${seen[@]}"
summary=$(printf '%s; ' "$(git -C "$system_clone" rev-parse --short HEAD) on $where" "${seen[@]}")
[[ -z $failed ]] || { echo "CLAIM fresh_clone NOT SHOWN: ${summary%; }"; exit 1; }
echo "CLAIM fresh_clone shown: ${summary%; }"
