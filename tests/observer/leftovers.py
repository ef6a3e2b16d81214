"""Resources that a session has left after its end; there must be none."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from tests.observer import processes


def session_leftovers(session: str) -> list[str]:
    """Return everything of the session that still exists on the machine."""
    problems = [f"the name /dev/shm/{name} is left" for name in processes.names(session)]
    if processes.has_socket(session):
        problems.append("the manager's socket is left")
    mark = f"shmtensor-{session}"
    for pid in processes.all_pids():
        targets = [target for target in processes.descriptors(pid).values() if mark in target]
        if targets:
            problems.append(f"process {pid} has descriptors of the session open: {sorted(set(targets))}")
        if count := len(processes.mappings(pid, mark)):
            problems.append(f"process {pid} has {count} mappings of the session")
    problems.extend(f"manager {pid} is left" for pid in processes.managers(session))
    return problems


@dataclass(frozen=True)
class ProcessResources:
    """Resources of the process that runs the round."""

    descriptors: tuple[str, ...]
    children: frozenset[int]
    threads: int

    @classmethod
    def take(cls) -> ProcessResources:
        targets = processes.descriptors(os.getpid()).values()
        kept = (t for t in targets if not t.startswith("/proc/"))  # the listing's own
        return cls(tuple(sorted(kept)), frozenset(processes.children(os.getpid())), threading.active_count())

    def more_than(self, before: ProcessResources) -> list[str]:
        problems = []
        if len(self.descriptors) > len(before.descriptors):
            more = len(self.descriptors) - len(before.descriptors)
            problems.append(f"{more} more descriptors than at the start: {self.descriptors}")
        for pid in sorted(self.children - before.children):
            problems.append(f"the child {pid} is left: {processes.describe(pid)}")
        if self.threads > before.threads:
            problems.append(f"{self.threads - before.threads} more threads than at the start")
        return problems


def shared_pages() -> int:
    """Return the bytes of shared memory in use on the machine."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("Shmem:"):
                return int(line.split()[1]) * 1024
    return 0
