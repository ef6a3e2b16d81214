#!/bin/sh
# Puts GoogleTest under the folder named, without root: nothing to do if the system has it, else
# Debian's package, unpacked. The package lists of a fresh machine may be missing, so they are
# fetched into the folder too.
set -eu
mkdir -p "$1"
cd "$1"
for found in /usr/include/gtest/gtest.h /usr/local/include/gtest/gtest.h; do
  [ -e "$found" ] && exit 0
done
if ! command -v apt-get >/dev/null; then
  echo 'The C++ tests need GoogleTest: install it (libgtest-dev, gtest-devel, ...) and run again.' >&2
  exit 1
fi
mkdir -p lists/partial cache/archives/partial
apt="apt-get -qq -o Dir::State::Lists=$PWD/lists -o Dir::Cache=$PWD/cache -o Debug::NoLocking=1"
$apt update
$apt download libgtest-dev googletest
for package in ./*.deb; do dpkg -x "$package" .; done
