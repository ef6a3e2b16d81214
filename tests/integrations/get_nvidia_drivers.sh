#!/bin/sh
# Unpacks NVIDIA's user-space drivers from Debian's non-free packages under the folder named, one
# folder for each version, and installs nothing. Where they cannot be had, `reason` there says why;
# the tests that need them are skipped.
set -u
mkdir -p "$1"
cd "$1" || exit 1
root=$PWD
rm -f reason
fail() {
  echo "$1" >"$root/reason"
  exit 0
}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
command -v apt-get >/dev/null || fail 'no apt-get'
command -v dpkg >/dev/null || fail 'no dpkg'
[ -e $keys ] || fail "no $keys (package debian-archive-keyring)"

mkdir -p apt/lists/partial apt/cache/archives/partial packages
: >apt/status
cat >apt/sources.list <<EOF
deb [signed-by=$keys] http://deb.debian.org/debian bookworm non-free
deb [signed-by=$keys] http://deb.debian.org/debian trixie non-free
EOF
apt() {
  timeout 120 apt-get -qq -o Dir::State="$root/apt" -o Dir::State::Status="$root/apt/status" \
    -o Dir::Cache="$root/apt/cache" -o Dir::Etc::SourceList="$root/apt/sources.list" \
    -o Dir::Etc::SourceParts=- -o Debug::NoLocking=1 -o APT::Sandbox::User= "$@" >"$root/apt/log" 2>&1 ||
    fail "apt-get $*: $(tail -n 1 "$root/apt/log")"
}
apt update
cd packages || exit 1
# The oldest that has every function, and those of two releases of Debian.
apt download libnvidia-tesla-470-cuda1 libcuda1/bookworm libcuda1/trixie
cd .. || exit 1

for package in packages/*.deb; do
  version=${package#*_}
  version=${version%%-*}
  dpkg -x "$package" unpacked || fail "dpkg -x $package"
  mkdir -p "$version"
  find unpacked -name "libcuda.so.$version" -exec mv {} "$version/libcuda.so.1" \;
  rm -rf unpacked
  [ -e "$version/libcuda.so.1" ] || fail "$package has no libcuda.so.$version"
done
