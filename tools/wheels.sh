#!/usr/bin/env bash
# Makes the wheels, one for each architecture, which pip installs on any Linux that is not older than Debian 12:
#
#   tools/wheels.sh [--output FOLDER] [--tree FOLDER] [x86_64] [aarch64]      both, where none is named
#
# --output   where the wheels go: dist
# --tree     also installs C, C++ and the command there, as FOLDER/ARCHITECTURE/usr/local
# Libraries are linked statically (tools/wheels/static_libraries.sh) but libsndfile; auditwheel checks the rest and names
# the platform, abi3audit checks that one wheel serves each Python from 3.11. The wheel for aarch64 is cross-compiled;
# QEMU runs what its build needs to run. The first time takes an hour on two cores, later ones a minute.
#
# NACRE_JOBS: compilers at a time (all processors). NACRE_X86_TIERS: the tiers of kernels (all), for a test that has less time.
# Equal commits give equal bytes.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
. tools/packages.sh
. tools/wheels/debian.sh
output=dist tree= architectures=()
while (($#)); do
  case $1 in
    --output) output=$2; shift 2 ;;
    --tree) tree=$2; shift 2 ;;
    x86_64 | aarch64) architectures+=("$1"); shift ;;
    *)
      echo "wheels: $1: expected --output FOLDER, --tree FOLDER, x86_64 or aarch64" >&2
      exit 2
      ;;
  esac
done
((${#architectures[@]})) || architectures=(x86_64 aarch64)
if [ "$(uname -m)" != x86_64 ]; then
  echo "wheels: this machine is $(uname -m): wheels are made on x86-64" >&2
  exit 1
fi
need_packages build tools wheels
[[ " ${architectures[*]} " != *" aarch64 "* ]] || need_packages arm
export NACRE_JOBS=${NACRE_JOBS:-$(nproc)}
# Archives carry the commit's date, not today's.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
mkdir -p "$output"
output=$(realpath "$output")
[ -z "$tree" ] || { mkdir -p "$tree" && tree=$(realpath "$tree"); }
python=$(tools/peers.sh tools/wheels/requirements.txt wheels)
export PATH=$(dirname "$python"):$PATH
most_bytes=$((12 * 1000 * 1000))

# cross_file PREFIX: prints the file by which Meson compiles for aarch64.
cross_file() {
  cat <<CROSS
[binaries]
cpp = [$(! command -v ccache >/dev/null || echo "'ccache', ")'aarch64-linux-gnu-g++']
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkg-config = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '$(debian_python_sysroot)', '-E', 'LD_LIBRARY_PATH=$1/lib']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
[properties]
pkg_config_libdir = '$1/lib/pkgconfig'
CROSS
}

# make_wheel ARCHITECTURE: puts the wheel into the output.
make_wheel() {
  local architecture=$1 prefix build made work settings=()
  prefix=$(tools/wheels/static_libraries.sh "$architecture") || return 1
  build=$root/build/wheel-$architecture
  work=$(mktemp -d "$root/build/wheel.XXXXXX")
  # Tiers have many functions of equal code: gold keeps one of each, 33 MB become 27. Nothing asks whether two kernels are one.
  local link="-L$prefix/lib -Wl,--as-needed -fuse-ld=gold -Wl,--icf=all -s"
  # Warnings are errors, as in tests, so that a compiler's cache serves both.
  settings=(-Csetup-args=-Dwerror=true -Csetup-args=-Dx86_tiers="${NACRE_X86_TIERS:-all}" -Csetup-args=-Dpython_interpreter="$python"
    "-Csetup-args=-Dcpp_link_args=$link" "-Ccompile-args=-j$NACRE_JOBS")
  if [ "$architecture" = aarch64 ]; then
    cross_file "$prefix" >"$build.ini"
    settings+=(-Csetup-args=--cross-file="$build.ini" -Csetup-args=-Dpython_runner="$root/tools/wheels/python_aarch64.sh")
  fi
  # pip has -v: otherwise it would be silent for the whole compilation.
  env PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig" LD_LIBRARY_PATH="$prefix/lib" NACRE_ARM_LIBRARIES="$prefix/lib" _PYTHON_HOST_PLATFORM="linux-$architecture" \
    "$python" -m pip wheel . -v --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$work/made" -Cbuild-dir="$build" "${settings[@]}" ||
    return 1
  made=$(echo "$work"/made/nacre-*.whl)
  LD_LIBRARY_PATH=$prefix/lib "$python" -m auditwheel repair --wheel-dir "$work/repaired" "$made" || return 1
  "$python" tools/wheels/finish_wheel.py "$work"/repaired/nacre-*.whl "$prefix/licenses" "$work/finished" || return 1
  made=$(echo "$work"/finished/nacre-*.whl)
  "$python" -m auditwheel show "$made" || return 1
  "$python" -m abi3audit --strict --summary "$made" || return 1
  if (($(stat -c %s "$made") > most_bytes)); then
    echo "wheels: $(basename "$made") has $(stat -c %s "$made") bytes, expected $most_bytes at most" >&2
    return 1
  fi
  [ -z "$tree" ] || install_tree "$architecture" "$prefix" "$build" "$tree/$architecture" || return 1
  cp "$made" "$output/"
  rm -rf "$work"
}

# install_tree ARCHITECTURE PREFIX BUILD FOLDER: installs C, C++ and the command of this build, with libsndfile.
install_tree() {
  local strip=strip place=$4/usr/local
  [ "$1" != aarch64 ] || strip=aarch64-linux-gnu-strip
  rm -rf "$4"
  # Only installed targets are compiled: the samples and the tests are not.
  meson introspect "$3" --targets | "$python" -c 'import json, sys
print(*(file for t in json.load(sys.stdin) if t["installed"] for file in t["filename"]))' >"$work/targets" || return 1
  env LD_LIBRARY_PATH="$2/lib" ninja -C "$3" -j"$NACRE_JOBS" $(sed "s|$3/||g" "$work/targets") || return 1
  DESTDIR=$4 meson install -C "$3" --no-rebuild --quiet --tags devel,runtime,man,doc >&2 || return 1
  mkdir -p "$place/lib/nacre" "$place/share/doc/nacre/third_party"
  cp -L "$2/lib/libsndfile.so.1" "$place/lib/nacre/"
  # The second folder serves roots without /proc, which $ORIGIN needs.
  patchelf --set-rpath '$ORIGIN/../lib/nacre:/usr/local/lib/nacre' "$place/bin/nacre"
  $strip "$place/bin/nacre"
  cp LICENSE NOTICE CHANGELOG.md "$place/share/doc/nacre/"
  cp "$2"/licenses/* "$place/share/doc/nacre/third_party/"
}

for architecture in "${architectures[@]}"; do
  make_wheel "$architecture" || { echo "wheels: no wheel for $architecture; the lines above tell why" >&2; exit 1; }
done
ls -l "$output"/nacre-*.whl
