# Fetches packages of Debian for tools/wheels: sources, and packages of arm64, without a change of this system's apt.
# The sources of packages are those of the release that runs here.
#
#   debian_source NAME         unpacks the newest source that can be fetched into build/static/src, and prints its version
#   debian_openssl ARCHITECTURE  prints a folder with libcrypto.a and its headers
#   debian_python_sysroot      prints a folder with Python for arm64, which qemu-aarch64 -L runs
debian_base=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/static

# debian_apt_get ARCHITECTURE WORD...: apt-get with lists of its own.
debian_apt() {
  local state=$debian_base/apt-$1 program=$2
  if [ ! -f "$state/updated" ]; then
    mkdir -p "$state"/{lists/partial,cache/archives/partial,sources.d}
    local release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    printf 'Types: deb deb-src\nURIs: http://deb.debian.org/%s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n' \
      debian "$release $release-updates" debian-security "$release-security" >"$state/sources.d/debian.sources"
    cat >"$state/apt.conf" <<CONF
APT::Architecture "$1";
APT::Architectures {"$1";};
APT::Sandbox::User "root";
Dir::State "$state";
Dir::State::status "$state/status";
Dir::Cache "$state/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$state/sources.d";
Dir::Etc::Parts "/dev/null";
CONF
    : >"$state/status"
    APT_CONFIG=$state/apt.conf apt-get -q update >"$state/log" 2>&1 || { tail -n 5 "$state/log" >&2; return 1; }
    touch "$state/updated"
  fi
  APT_CONFIG=$state/apt.conf "$program" -q "${@:3}"
}

debian_source() {
  local name=$1 folder=$debian_base/src/$1 version
  if [ ! -f "$folder.version" ]; then
    mkdir -p "$debian_base/sources" "$debian_base/src"
    rm -rf "$folder"
    # A mirror can list a version before it has its files: the one before it is then taken.
    for version in $(debian_apt amd64 apt-cache showsrc "$name" | awk '/^Package: /{named = $2} /^Version: /{print $2}' | sort -rV -u); do
      (cd "$debian_base/sources" && debian_apt amd64 apt-get source --download-only "$name=$version") >"$folder.log" 2>&1 || continue
      dpkg-source --no-check -x "$debian_base/sources/${name}_${version#*:}.dsc" "$folder" >>"$folder.log" 2>&1 || continue
      echo "$version" >"$folder.version"
      break
    done
    [ -f "$folder.version" ] || { tail -n 5 "$folder.log" >&2; echo "debian: no source of $name can be fetched" >&2; return 1; }
    rm -f "$folder.log" "$debian_base/src/${name}_"*
  fi
  cat "$folder.version"
}

# debian_unpacked FOLDER PACKAGE...: packages of arm64, unpacked and not installed.
debian_unpacked() {
  local folder=$1 archives=$debian_base/arm64 package
  shift
  mkdir -p "$archives" "$folder"
  (cd "$archives" && debian_apt arm64 apt-get download "$@") >"$archives/log" 2>&1 || { tail -n 5 "$archives/log" >&2; return 1; }
  for package in "$@"; do dpkg-deb -x "$archives/${package}"_*.deb "$folder"; done
}

debian_openssl() {
  local folder=$debian_base/openssl-$1 from=/ triple=$1-linux-gnu
  if [ ! -f "$folder/version" ]; then
    rm -rf "$folder"
    mkdir -p "$folder/lib" "$folder/include"
    if [ "$1" = aarch64 ]; then
      from=$folder/unpacked
      debian_unpacked "$from" libssl-dev
    fi
    cp "$from/usr/lib/$triple/libcrypto.a" "$folder/lib/"
    cp -rL "$from/usr/include/openssl" "$folder/include/"
    cp "$from/usr/include/$triple/openssl/"* "$folder/include/openssl/"
    cp "$from/usr/share/doc/libssl-dev/copyright" "$folder/copyright"
    if [ "$1" = aarch64 ]; then
      dpkg-deb -f "$debian_base/arm64"/libssl-dev_*.deb Version >"$folder/version"
    else
      dpkg-query -W -f '${source:Version}\n' libssl-dev >"$folder/version"
    fi
  fi
  echo "$folder"
}

debian_python_sysroot() {
  local folder=$debian_base/sysroot-aarch64
  if [ ! -f "$folder/ready" ]; then
    rm -rf "$folder"
    debian_unpacked "$folder" libc6 libstdc++6 libgcc-s1 gcc-12-base libpython3.11-minimal libpython3.11-stdlib python3.11-minimal python3.11 \
      libpython3.11-dev libpython3.11 python3-pip-whl python3-setuptools-whl python3.11-venv \
      zlib1g libexpat1 libssl3 libbz2-1.0 liblzma5 libffi8 libsqlite3-0 libuuid1 libreadline8 libtinfo6 libncursesw6 libdb5.3 libcrypt1 libnsl2 libtirpc3 \
      libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1 media-types || return 1
    touch "$folder/ready"
  fi
  echo "$folder"
}

# debian_python_packages: prints a folder with the packages for arm64 that generate the extension's stubs.
debian_python_packages() {
  local folder=$debian_base/packages-aarch64 python
  if [ ! -f "$folder/ready" ]; then
    rm -rf "$folder"
    python=$("$debian_base/../../tools/peers.sh" tools/wheels/requirements.txt wheels)
    mkdir -p "$folder" "$debian_base/wheelhouse-aarch64"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$debian_base/wheelhouse-aarch64" --only-binary :all: --python-version 3.11 \
      --platform manylinux_2_28_aarch64 $(grep -E '^(numpy|nanobind|nanobind-backend|typing_extensions|pip)==' "$debian_base/../../tools/wheels/requirements.txt") >&2 || return 1
    for wheel in "$debian_base"/wheelhouse-aarch64/*.whl; do "$python" -m zipfile -e "$wheel" "$folder"; done
    touch "$folder/ready"
  fi
  echo "$folder"
}
