# The system packages that Nacre is built, tested and measured with: the one list. Debian 12 and newer, Ubuntu 24.04.
#
#   . tools/packages.sh            in a script:  need_packages build tools
#   bash tools/packages.sh build   on its own:   the same, for a person or a CI image
#
# need_packages installs the missing packages and nothing else; packages_of only prints names. Messages go to stderr,
# so that a caller may print a result on stdout. NACRE_PACKAGES=have skips the check: for systems without apt-get, and
# for tools that were installed in another way.

# Prints the packages of one group. A group names only what it adds: tools alone do not build without build.
packages_of() {
  case $1 in
    # git and ca-certificates: a container's base image has neither.
    build) echo g++ meson ninja-build flatbuffers-compiler libflatbuffers-dev pkg-config git ca-certificates ;;
    tools) echo libcli11-dev nlohmann-json3-dev libfmt-dev libonnx-dev libprotobuf-dev protobuf-compiler \
                libzip-dev libhdf5-dev zlib1g-dev libssl-dev libre2-dev libpng-dev libturbojpeg0-dev libsndfile1-dev ;;
    tests) echo ccache libgtest-dev libbenchmark-dev xz-utils faketime cmake pkg-config clang-19 groff-base zsh fish ;;
    firmware) echo gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib qemu-system-arm \
                   gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc clang-19 cmake make ;;
    debian) echo debhelper dpkg-dev lintian fakeroot ;;
    wheels) echo ccache cmake make dpkg-dev unicode-data ;;
    arm) echo g++-aarch64-linux-gnu g++-arm-linux-gnueabihf qemu-user ;;
    fuzz) echo clang-19 libclang-rt-19-dev lld ;;
    xnnpack) echo libxnnpack-dev libpthreadpool-dev ;;
    gemm_peers) echo libdnnl-dev libxnnpack-dev libpthreadpool-dev ;;
    mpi) echo openmpi-bin libopenmpi-dev ;;
    peers) echo python3 python3-venv ca-certificates ;;
    # Ubuntu has Chromium as a snap alone: there NACRE_BROWSER names one, or the pages are not looked at.
    browser) ! grep -qs '^ID=debian' /etc/os-release || echo chromium ;;
    python) echo python3-dev ;;
    docs) echo groff-base doxygen ;;
    *)
      echo "packages: $1: no such group, expected build, tools, tests, firmware, arm, fuzz, debian, wheels, xnnpack, gemm_peers, mpi, peers, browser, python or docs" >&2
      return 1
      ;;
  esac
}

# Runs apt-get as root, its chatter kept for the case that it fails.
packages_apt_get() {
  local as_root=() said
  [[ $(id -u) == 0 ]] || as_root=(sudo)
  # The lock's timeout: another apt-get, say of unattended-upgrades, may be at work.
  if said=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
      -o Dpkg::Use-Pty=0 "$@" 2>&1); then
    return 0
  fi
  tail -n 20 <<<"$said" >&2
  return 1
}

need_packages() {
  [[ ${NACRE_PACKAGES-} != have ]] || return 0
  local group names package missing=()
  for group in "$@"; do
    names=$(packages_of "$group") || return 1
    for package in $names; do
      # dpkg's status is "ii" or "hi": the second letter says that it is installed, the first what is wanted.
      [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null) == ?i* ]] && continue
      [[ " ${missing[*]-} " == *" $package "* ]] || missing+=("$package")
    done
  done
  ((${#missing[@]})) || return 0

  if ! command -v apt-get >/dev/null; then
    echo "packages: this system has no apt-get. Install what corresponds to these Debian packages:" >&2
    echo "    ${missing[*]}" >&2
    echo "packages: then run this again with NACRE_PACKAGES=have in the environment" >&2
    return 1
  fi
  if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
    echo "packages: neither root nor sudo. Ask someone who is root for:" >&2
    echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
    return 1
  fi

  echo "packages: installing ${missing[*]}" >&2
  # First without an update: on most machines the lists are there and good. An empty or an old list fails here.
  packages_apt_get install --no-install-recommends "${missing[@]}" 2>/dev/null && return 0
  echo "packages: fetching the lists of packages first" >&2
  packages_apt_get update && packages_apt_get install --no-install-recommends "${missing[@]}" && return 0
  echo "packages: apt-get could not install these; the lines above are its own. The list is for Debian 12 and" >&2
  echo "    newer and Ubuntu 24.04; elsewhere install what corresponds and set NACRE_PACKAGES=have" >&2
  return 1
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  need_packages "$@"
fi
