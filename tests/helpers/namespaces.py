"""Commands that run in new namespaces."""

from __future__ import annotations

import functools
import shlex
import subprocess
from pathlib import Path

import pytest

_OWN_MOUNTS = ["unshare", "--mount", "--propagation", "private"]
_AS_ROOT = ["--user", "--map-root-user"]  # lets other users create namespaces


def with_own_mounts(script: str) -> list[str]:
    """Return a command that runs a shell script, to be followed by the script's arguments from `$0` on.

    Skips the test where the system does not allow mount namespaces, as in most containers.
    """
    if isinstance(command := _own_mounts(), str):
        pytest.skip(f"mount namespaces are not available: {command}")
    return [*command, "sh", "-c", script]


_WITHOUT_DEV_SHM = """
    set -e
    mount -t tmpfs none "$0"
    for name in null zero random urandom; do
        touch "$0/$name"
        mount --bind "/dev/$name" "$0/$name"
    done
    ln -s /proc/self/fd "$0/fd"
    mount --rbind "$0" /dev
    exec "$@"
"""


def without_dev_shm(folder: Path) -> list[str]:
    """Return the start of a command that runs without /dev/shm; `folder` is empty, for its /dev."""
    return [*with_own_mounts(_WITHOUT_DEV_SHM), str(folder)]


def with_readonly_dev_shm() -> list[str]:
    """Return the start of a command that runs with a read-only /dev/shm."""
    return [*with_own_mounts('mount -t tmpfs -o ro none /dev/shm && exec "$@"'), "sh"]


@functools.cache
def _own_mounts() -> list[str] | str:
    for command in ([*_OWN_MOUNTS, *_AS_ROOT], _OWN_MOUNTS):
        done = subprocess.run([*command, "true"], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return command
    return done.stderr.strip()


def as_nobody(*mapping: str) -> list[str]:
    """Return the start of a command that runs as the overflow uid, in a user namespace with that mapping.

    Skips the test where the system does not allow it.
    """
    command = ["unshare", "--user", *mapping]
    done = subprocess.run([*command, "id", "--user"], check=False, capture_output=True, text=True)
    if done.stdout.strip() != "65534":
        pytest.skip(f"user namespaces are not available: {done.stderr.strip() or done.stdout.strip()}")
    return command


def in_container(*more: str) -> list[str]:
    """Return the start of a command that runs as in a container with the network and the name of its host.

    It has its own processes, numbered from 1, and its own /dev/shm, and with "--net" its own network. Skips
    the test where the system does not allow it.
    """
    own = ["unshare", *more, "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
    command = [*own, "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    done = subprocess.run([*command, "true"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"PID and mount namespaces cannot be made: {done.stderr.strip()}")
    return command


_NETWORK = ["unshare", *_AS_ROOT, "--net"]
_HOST = ["unshare", "--net", "--uts", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
ADDRESSES = ("10.9.0.1", "10.9.0.2")
_LINK = "wire"  # the interface that connects a host with the other
# Its arguments are a folder and what each host runs.
_TWO_HOSTS = """
    set -e
    mkfifo "$0/alpha" "$0/beta"
    await_both() {{ read _ < "$0/alpha"; read _ < "$0/beta"; }}
    release_both() {{ echo > "$0/alpha"; echo > "$0/beta"; }}
    {host} sh -c "$host" "$0" alpha {first} true "$1" & first=$!
    {host} sh -c "$host" "$0" beta {second} "mount -t tmpfs none /dev/shm" "$2" & second=$!
    await_both
    ip link add {link} netns $first type veth peer name {link} netns $second
    release_both
    await_both
    release_both
    status=0
    wait $first || status=$?
    kill -KILL $second 2> /dev/null || true
    wait
    exit $status
"""
_A_HOST = """
    set -e
    meet() {{
        echo > "$0/$name"
        read _ < "$0/$name"
    }}
    name=$1
    meet
    hostname $name
    $3
    ip link set lo up
    ip address add $2/24 dev {link}
    ip link set {link} addrgenmode none up  # an IPv6 address would be unusable at first
    meet
    until ip link show {link} | grep -q "state UP"; do sleep 0.02; done
    eval "exec $4"
"""


def on_two_hosts(folder: Path, first: list[str], second: list[str]) -> list[str]:
    """Return a command that runs one command on each of two hosts, `ADDRESSES`, and ends with the first.

    The hosts are namespaces, neither of which is in the other: each has its own network, with it its abstract
    sockets, its own hostname and processes; a link connects them. The second has a /dev/shm of its own. Skips
    the test where the system does not allow it.
    """
    probe = [*_NETWORK, *_HOST, "ip", "link", "add", _LINK, "type", "veth", "peer", "name", "beta"]
    try:
        done = subprocess.run(probe, check=False, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"network namespaces cannot be made: {error}")
    if done.returncode != 0:
        pytest.skip(f"network namespaces cannot be made: {done.stderr.strip()}")
    names = {"host": shlex.join(_HOST), "first": ADDRESSES[0], "second": ADDRESSES[1], "link": _LINK}
    start = f"host={shlex.quote(_A_HOST.format(**names))}\n{_TWO_HOSTS.format(**names)}"
    return [*_NETWORK, "sh", "-c", start, str(folder), shlex.join(first), shlex.join(second)]
