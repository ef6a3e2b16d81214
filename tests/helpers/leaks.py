"""Resources of a process and its session before and after a test."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import shmtensor as st
from shmtensor.multiprocessing._worker_server.client import client
from tests.helpers.children import descendants, manager_pids
from tests.observer.processes import descriptors


def own_mappings() -> list[str]:
    """Return the mappings of arenas in this process.

    Mappings of the session's memory are not counted: there is one for each slot that ever sent a message, and
    slots are reused.
    """
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if "shmtensor-" in line and "-session" not in line]


def shm_names(session: str = "") -> set[str]:
    """Return the names in /dev/shm of one session or of all."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(f"shmtensor-{session}")}


def abandoned(names: set[str]) -> list[str]:
    """Return the names of sessions without a manager and without a process that maps their memory."""
    sessions = {name.split("-")[1] for name in names}
    unused = {session for session in sessions if not manager_pids(session)}
    for path in Path("/proc").glob("[0-9]*/maps") if unused else ():
        with contextlib.suppress(OSError):  # it exited or belongs to another user
            maps = path.read_text()
            unused = {session for session in unused if session not in maps}
    return sorted(name for name in names if name.split("-")[1] in unused)


@contextlib.contextmanager
def names_kept(session: str) -> Iterator[None]:
    """Open the names of a session for writing: a new manager removes names without a writer."""
    with contextlib.ExitStack() as stack:
        for name in shm_names(session):
            stack.enter_context(open(f"/dev/shm/{name}", "r+b"))
        yield


def worker_server() -> tuple[int, int] | None:
    """Return the pid of the worker server of this process and its connection; None if it is not running."""
    if client._server is None:
        return None
    return client._server.pid, client._server.fileno()


@dataclass(frozen=True)
class Snapshot:
    """Resources of this process and its session; tests of other sessions may run simultaneously."""

    files: dict[int, str]
    mappings: int
    names: set[str]
    children: set[int]
    blocks: int
    in_flight: int

    @classmethod
    def take(cls) -> Snapshot:
        gc.collect()
        stats = st.stats()
        server, connection = worker_server() or (None, None)
        return cls(
            {fd: name for fd, name in descriptors(os.getpid()).items() if fd != connection},
            len(own_mappings()),
            shm_names(stats["session"]),
            descendants(os.getpid()) - {server},
            stats["blocks"],
            stats["in_flight"],
        )

    def difference(self, before: Snapshot) -> list[str]:
        """Return one line for each resource that is new."""
        problems = []
        new_files = [f"{fd} -> {name}" for fd, name in self.files.items() if fd not in before.files]
        if new_files:
            problems.append(f"descriptors {new_files}")
        if self.mappings > before.mappings:
            problems.append(f"{self.mappings - before.mappings} mappings")
        if self.names - before.names:
            problems.append(f"names in /dev/shm {sorted(self.names - before.names)}")
        if self.children - before.children:
            problems.append(f"children {sorted(self.children - before.children)}")
        if self.blocks > before.blocks:
            problems.append(f"{self.blocks - before.blocks} blocks")
        if self.in_flight > before.in_flight:
            problems.append(f"{self.in_flight - before.in_flight} unread messages")
        return problems

    @classmethod
    def settled_difference(cls, before: Snapshot, timeout: float = 60.0) -> list[str]:
        """Return the difference after dead processes were noticed; `gc` unmaps, but consumes no ticket."""
        deadline = time.monotonic() + timeout
        while True:
            st.gc()
            problems = cls.take().difference(before)
            if not problems or time.monotonic() > deadline:
                return problems
            time.sleep(0.02)
