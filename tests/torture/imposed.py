"""Limits of a process: address space, file size, locked memory, a memory cgroup, the number of processes.

Each function imposes one and returns a function that lifts it, or None if this process cannot have it.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.torture.capabilities import Capability

if TYPE_CHECKING:
    from tests.torture.run_state import RunState

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MCL_FUTURE, MCL_ONFAULT = 2, 4
CAP_IPC_LOCK = 14

_libc = ctypes.CDLL(None, use_errno=True)


def lower(which: int, value: int) -> Callable[[], None]:
    """Set a soft limit; return a function that sets it back."""
    before = resource.getrlimit(which)
    if before[1] != resource.RLIM_INFINITY:
        value = min(value, before[1])
    resource.setrlimit(which, (value, before[1]))
    return lambda: resource.setrlimit(which, before)


def limit_address_space(state: RunState, rng: random.Random) -> Callable[[], None]:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return lower(resource.RLIMIT_AS, used + rng.choice((0, 64 * KIB, MIB, 16 * MIB, 400 * MIB, GIB)))


def limit_file_size(state: RunState, rng: random.Random) -> Callable[[], None]:
    return lower(resource.RLIMIT_FSIZE, rng.choice((64 * KIB, 64 * MIB, GIB, 16 * GIB, 40 * GIB)))


def lock_memory(state: RunState, rng: random.Random) -> Callable[[], None] | None:
    """Lock future mappings, with a small RLIMIT_MEMLOCK, or with the right to exceed it."""
    lock = Capability(CAP_IPC_LOCK)
    dropped = rng.random() < 0.8 and lock.drop()
    set_back = lower(resource.RLIMIT_MEMLOCK, rng.choice((64 * KIB, MIB, 64 * MIB)))

    def lift() -> None:
        _libc.munlockall()
        set_back()
        if dropped:
            lock.take_back()

    if _libc.mlockall(MCL_FUTURE | rng.choice((0, MCL_ONFAULT))) != 0:
        lift()
        return None
    return lift


def limit_group(state: RunState, rng: random.Random) -> Callable[[], None] | None:
    group = state.cgroup
    if group is None:
        return None
    group.enter()
    return group.leave


def limit_processes(state: RunState, rng: random.Random) -> Callable[[], None] | None:
    """Refuse every fork; the kernel does not refuse root."""
    return lower(resource.RLIMIT_NPROC, 1) if os.geteuid() != 0 else None


LIMITS = (
    limit_address_space,
    limit_address_space,
    limit_file_size,
    lock_memory,
    limit_group,
    limit_processes,
)
