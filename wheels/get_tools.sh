#!/bin/sh
# Installs what `make check-wheels` needs, on Debian or Ubuntu as root, and has the kernel run programs of the other
# machine with QEMU, as systemd does where it runs.
set -eu
if ! command -v mmdebstrap >/dev/null || ! ls /usr/bin/qemu-*-static >/dev/null 2>&1; then
  apt-get update
  apt-get install --yes --no-install-recommends debian-archive-keyring mmdebstrap qemu-user-static
fi
registered=/proc/sys/fs/binfmt_misc
[ -e $registered/register ] || mount -t binfmt_misc none $registered
for machine in x86_64 aarch64; do
  rule=/usr/lib/binfmt.d/qemu-$machine.conf
  if [ -e $rule ] && [ ! -e $registered/qemu-$machine ]; then
    cat $rule >$registered/register
  fi
done
