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


def in_container() -> list[str]:
    """Return the start of a command that runs as in a container with the network and the name of its host.

    It has its own processes, numbered from 1, and its own /dev/shm. Skips the test where the system does not
    allow it.
    """
    own = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
    command = [*own, "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    done = subprocess.run([*command, "true"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"PID and mount namespaces cannot be made: {done.stderr.strip()}")
    return command


_OWN_HOST = ["unshare", "--net", "--uts", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
ADDRESSES = ("10.9.0.1", "10.9.0.2")
_FIRST_HOST = """
    set -e
    hostname alpha
    ip link set lo up
    ip link add alpha type veth peer name beta
    mkfifo "$0/started" "$0/linked"
    {own} sh -c "$second_host" "$0" "$2" &
    export SECOND_HOST=$!
    read _ < "$0/started"
    ip link set beta netns $SECOND_HOST
    ip address add {first}/24 dev alpha
    ip link set alpha up
    echo > "$0/linked"
    read _ < "$0/started"
    eval "exec $1"
"""
_SECOND_HOST = """
    set -e
    echo > "$0/started"
    read _ < "$0/linked"
    hostname beta
    mount -t tmpfs none /dev/shm
    ip link set lo up
    ip address add {second}/24 dev beta
    ip link set beta up
    echo > "$0/started"
    eval "exec $1"
"""


def on_two_hosts(folder: Path, first: list[str], second: list[str]) -> list[str]:
    """Return a command that runs one command on each of two hosts, `ADDRESSES`, and ends with the first.

    The hosts are namespaces: each has its own network, with it its abstract sockets, its own hostname,
    processes and /dev/shm; a link connects them. For the first command, `SECOND_HOST` is the id of a process
    in the namespaces of the second. Skips the test where the system does not allow it.
    """
    names = {"own": " ".join(_OWN_HOST), "first": ADDRESSES[0], "second": ADDRESSES[1]}
    start = f"second_host={shlex.quote(_SECOND_HOST.format(**names))}\n" + _FIRST_HOST.format(**names)
    host = [*_OWN_HOST[:1], *_AS_ROOT, *_OWN_HOST[1:]]
    probe = [*host, "ip", "link", "add", "alpha", "type", "veth", "peer", "name", "beta"]
    try:
        done = subprocess.run(probe, check=False, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"network namespaces cannot be made: {error}")
    if done.returncode != 0:
        pytest.skip(f"network namespaces cannot be made: {done.stderr.strip()}")
    return [*host, "sh", "-c", start, str(folder), shlex.join(first), shlex.join(second)]
