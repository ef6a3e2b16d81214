"""Commands that run in new namespaces."""

from __future__ import annotations

import functools
import subprocess

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
