"""A snapshot of all that is visible of an idle session."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shmtensor.multiprocessing._pool.running import BYTES as POOL_BYTES
from tests.observer import processes
from tests.observer.broadcasts import BroadcastBlock, read_broadcast
from tests.observer.caches import CacheBlock, read_cache
from tests.observer.files import ArenaFile, Block, SessionFile
from tests.observer.patterns import mismatch
from tests.observer.pipes import PipeEnd, read_pipe_end
from tests.observer.primitives import PrimitiveBlock, read_primitive
from tests.observer.queues import QueueBlock, read_queue

MOST_TASKS = 100  # of a pool of `mp_workload`
MOST_WORKERS = 1024


@dataclass(frozen=True)
class Holding:
    """A tensor that a process reports: the address of its bytes there."""

    address: int
    nbytes: int


@dataclass
class Member:
    """One process."""

    pid: int
    holdings: list[Holding]
    exact: bool  # it holds exactly what it reports
    forked: bool  # descriptors that it inherited and forgot stay open
    mappings: list[processes.Mapping] = field(default_factory=list)
    descriptors: dict[int, str] = field(default_factory=dict)


@dataclass
class Snapshot:
    session: SessionFile
    arenas: dict[int, ArenaFile]
    members: dict[int, Member]  # by pid
    alive: set[int]  # slots with a live process
    broken: list[tuple[ArenaFile, Block, str]]  # patterns
    queues: list[QueueBlock]
    broadcasts: list[BroadcastBlock]
    caches: list[CacheBlock]
    primitives: list[PrimitiveBlock]
    pipe_ends: list[PipeEnd]
    managers: list[int]
    allow_data_loss: bool = False  # owners and manager were killed together: memfds may be gone
    may_keep_tickets: bool = False  # those that only a lost queue has named; gc does not cancel them


@contextmanager
def opened(session: str, pids: list[int]) -> Iterator[tuple[SessionFile | None, list[tuple[int, ArenaFile]]]]:
    """Open the session's memory and its arenas for the duration of the context."""
    files = processes.open_files(session, pids)
    try:
        memory, arenas = None, []
        for fd in files.values():
            try:
                magic = os.pread(fd, 8, 0)
            except OSError:  # closed by that process; its number now refers to a pipe or a socket
                continue
            if magic == b"stsessa1":
                memory = SessionFile(fd)
            elif magic == b"starena1":
                arenas.append((fd, ArenaFile(fd)))
        yield memory, arenas
    finally:
        for fd in files.values():
            os.close(fd)


def reported(path: Path) -> tuple[list[Holding], bool, bool]:
    """Return the report of an idle process; without a report it may hold any block."""
    try:
        report = json.loads(path.read_text())
    except FileNotFoundError:
        return [], False, True
    return [Holding(*holding) for holding in report["holdings"]], report["exact"], report["forked"]


def take_snapshot(session: str, pids: list[int], report_path: Callable[[int], Path]) -> Snapshot:
    """Take a snapshot; `pids` are all processes that may belong to the session."""
    managers = processes.managers(session)
    with opened(session, [*pids, *managers]) as (memory, arenas):
        if memory is None:
            raise ValueError(f"no process maps the memory of session {session}")
        broken = [problem for fd, arena in arenas for problem in _broken(fd, arena)]
        found_queues = [read_queue(fd, arena, block) for fd, arena in arenas for block in arena.blocks]
        found_broadcasts = [
            read_broadcast(fd, arena, block) for fd, arena in arenas for block in arena.blocks
        ]
        by_number = {arena.number: (fd, arena) for fd, arena in arenas}
        found_caches = [
            read_cache(fd, arena, block, by_number) for fd, arena in arenas for block in arena.blocks
        ]
        found_primitives = [
            read_primitive(fd, arena, block) for fd, arena in arenas for block in arena.blocks
        ]
        found_ends = [read_pipe_end(fd, arena, block) for fd, arena in arenas for block in arena.blocks]
    alive, members = set(), {}
    for slot in memory.slots.values():
        if not slot.taken or not slot.pid or not processes.is_alive(slot.pid):
            continue
        if processes.start_time(slot.pid) != slot.start_time:
            continue
        alive.add(slot.number)
        members[slot.pid] = _member(session, slot.pid, report_path(slot.pid))
    found = {arena.number: arena for _, arena in arenas}
    queues = [queue for queue in found_queues if queue is not None]
    broadcasts = [broadcast for broadcast in found_broadcasts if broadcast is not None]
    caches = [cache for cache in found_caches if cache is not None]
    primitives = [primitive for primitive in found_primitives if primitive is not None]
    pipe_ends = [end for end in found_ends if end is not None]
    return Snapshot(
        memory, found, members, alive, broken, queues, broadcasts, caches, primitives, pipe_ends, managers
    )


def _member(session: str, pid: int, report: Path) -> Member:
    holdings, exact, forked = reported(report)
    files = {
        n: target for n, target in processes.descriptors(pid).items() if f"shmtensor-{session}" in target
    }
    return Member(pid, holdings, exact, forked, processes.mappings(pid, f"shmtensor-{session}"), files)


def _broken(fd: int, arena: ArenaFile) -> list[tuple[ArenaFile, Block, str]]:
    found = []
    for block in arena.blocks:
        if not block.live or block.contents:  # a queue, a broadcast, or a message with tickets has no pattern
            continue
        content = os.pread(fd, block.size, arena.data_at + block.offset)
        if len(content) != block.size or block.size % 8 or block.size == 0:
            found.append((arena, block, f"{len(content)} of {block.size} bytes are stored"))
        elif (why := mismatch(content)) and not (
            _may_be_of_pool(content) or _may_be_counters(content) or _may_be_cached(content)
        ):
            found.append((arena, block, f"broken pattern in {block.size} bytes: {why}"))
    return found


def _may_be_of_pool(content: bytes) -> bool:
    """Return True if these may be the words of a pool, which begin with the tasks that its workers have."""
    claimed = np.frombuffer(content[: 8 * MOST_WORKERS], np.uint64)
    return len(content) == POOL_BYTES and int(claimed.max()) < MOST_TASKS


def _may_be_counters(content: bytes) -> bool:
    """Return True if these may be the counters that a lock protects."""
    return len(content) == 16 and int(np.frombuffer(content, np.uint64).max()) < 1 << 40


def _may_be_cached(content: bytes) -> bool:
    """Return True if this is the item of a cache: an array with a pattern."""
    head = np.frombuffer(content[:32], np.uint64).tolist()
    is_array = len(head) == 4 and head[:2] == [1, 0] and head[3] < len(content)
    return is_array and mismatch(content[head[3] :]) is None


def name(arena: ArenaFile, block: Block) -> str:
    return f"block {block.number} of arena {arena.number} (generation {block.generation})"
