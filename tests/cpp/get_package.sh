#!/bin/sh
# get_package.sh FOLDER HEADER PACKAGE...: puts Debian's packages under the folder, without root. Nothing to do if
# the system has the header. The package lists of a fresh machine may be missing, so they are fetched too.
set -eu
folder=$1 header=$2
shift 2
mkdir -p "$folder"
cd "$folder"
for include in /usr/include /usr/local/include; do
  [ -e "$include/$header" ] && exit 0
done
if ! command -v apt-get >/dev/null; then
  echo "This needs $header: install it (Debian: $*; Fedora: gtest-devel, google-benchmark-devel) and run again." >&2
  exit 1
fi
mkdir -p lists/partial cache/archives/partial
options="-o Dir::State::Lists=$PWD/lists -o Dir::Cache=$PWD/cache -o Debug::NoLocking=1 -o APT::Sandbox::User=root"
apt-get -qq $options update
for package; do
  # A development package depends on the library, whose name has a version.
  library=$(apt-cache $options depends "$package" | sed -n "s/^ *Depends: \(${package%-dev}.*\)/\1/p")
  apt-get -qq $options download "$package" $library
done
for package in ./*.deb; do dpkg -x "$package" .; done
rm -r lists cache
