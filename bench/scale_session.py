"""A session of many members, each a process with an arena: what grows with members, and with blocks.

    python -m bench.scale_session MEMBERS BLOCKS

It prints one JSON object, seconds and bytes. The members are forked before this process, the last member,
joins. `scale` runs it in a fresh interpreter for each size.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shmtensor as st
import shmtensor._core as _core
from bench.timing import per_call, used

DEADLINE = 300.0  # seconds until a member that gets nothing ends
ROUNDS = 20


def _join(number: int, blocks: int) -> tuple[float, Any, list[st.Tensor]]:
    """Join the session; return the seconds that it took, the inbox and the blocks of this member."""
    start = time.perf_counter()
    inbox: Any = st.Queue()
    seconds = time.perf_counter() - start
    held = [st.empty(64, "u1") for _ in range(blocks)]
    st.publish(f"inbox {number}", inbox)
    return seconds, inbox, held


def _member(number: int, members: int, blocks: int, joined: int) -> None:
    """Pass messages on to the next member, then, after None, from the common queue to the last member."""
    seconds, inbox, held = _join(number, blocks)
    os.write(joined, struct.pack("d", seconds))
    first = inbox.get(timeout=DEADLINE)
    last = st.attach(f"inbox {members - 1}")
    last.put(st.empty(1024))
    following = st.attach(f"inbox {number + 1}")
    del first
    while (message := inbox.get(timeout=DEADLINE)) is not None:
        following.put(message)
        del message
    common = st.attach("common")
    while (message := common.get(timeout=DEADLINE)) is not None:
        last.put(message)
        del message
    del held


def _start(number: int, members: int, blocks: int) -> tuple[int, float]:
    """Fork a member; return its pid and the seconds that joining took."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(ours)
            _member(number, members, blocks, theirs)
            status = 0
        finally:
            os._exit(status)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        return pid, struct.unpack("d", pipe.read(8))[0]


def manager_pid() -> int:
    """Return the pid of the manager: its credentials are those of the listening socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(f"\0shmtensor-{st.stats()['session']}")
        pid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        return pid


def _memory(pid: int) -> dict[str, int]:
    """Return the fields of /proc/PID/status that are sizes, in bytes."""
    fields = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {words[0][:-1]: int(words[1]) << 10 for words in fields if words[-1] == "kB"}


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@contextlib.contextmanager
def _timed(found: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    found[name] = time.perf_counter() - start


def _settled(manager: int) -> float:
    """Return the processor time of the manager when it has had nothing to do for a while."""
    before = -1.0
    while (now := used(manager)) - before > 1e-3:  # orphan arenas wake it ten times a second
        before = now
        time.sleep(0.2)
    return now


def _measure_work(found: dict[str, float], members: list[int], inbox: Any, manager: int) -> None:
    """Hand-overs from member to member and over a queue on which all wait, a fork, a death."""
    first = st.attach("inbox 0")
    tensor = st.empty(1024)
    rounds, commons = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        first.put(tensor)
        inbox.get(timeout=DEADLINE)
        rounds.append((time.perf_counter() - start) / (len(members) + 1))
    found["hand-over"] = statistics.median(rounds)
    found["make and release"] = per_call(_make_and_release, 20_000)
    if not members:
        return
    common: Any = st.Queue()
    st.publish("common", common)
    for number in range(len(members)):
        st.attach(f"inbox {number}").put(None)
    time.sleep(1)  # until all wait
    for _ in range(ROUNDS):
        start = time.perf_counter()
        common.put(tensor)
        inbox.get(timeout=DEADLINE)
        commons.append(time.perf_counter() - start)
    found["hand-over, common queue"] = statistics.median(commons)
    before = _settled(manager)
    os.kill(members[-1], signal.SIGKILL)
    os.waitpid(members.pop(), 0)
    found["death, manager"] = _settled(manager) - before
    for _ in members:
        common.put(None)


def _make_and_release(count: int) -> None:
    for _ in range(count):
        st.empty(1024, "u1")


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def measure(members: int, blocks: int) -> dict[str, float]:
    """Return what a session of that many members and blocks takes."""
    each = blocks // members
    started = [_start(number, members, each) for number in range(members - 1)]
    pids = [pid for pid, _ in started]
    _, inbox, held = _join(members - 1, each)
    manager = manager_pid()
    found = {"members": members, "blocks": blocks, "join, manager": used(manager) / members}
    if len(started) > 1:
        found["join"] = statistics.median(seconds for _, seconds in started[1:])
    for number in range(members - 1):
        st.attach(f"inbox {number}").put(0)
    kept = [inbox.get(timeout=DEADLINE) for _ in pids]
    status = _memory(manager)
    found |= {
        "manager, private": status["RssAnon"],
        "manager, address space": status["VmSize"],
        "manager, descriptors": _descriptors(manager),
    }
    own = _memory(os.getpid())
    found |= {
        "member, address space": own["VmSize"],
        "member, page tables": own["VmPTE"],
        "member, descriptors": _descriptors(os.getpid()),
        "member, mappings": st.stats()["mappings"],
        "shared memory": st.stats()["bytes_reserved"],
    }
    with _timed(found, "stats"):
        st.stats()
    with _timed(found, "ls"):
        _core.observe(st.stats()["session"])
    with _timed(found, "gc"):
        st.gc()
    with _timed(found, "fork"):
        _fork()
    before = _memory(os.getpid())["VmPTE"]
    large = st.ones(256 << 20, "u1")
    found["page tables of a GiB"] = (_memory(os.getpid())["VmPTE"] - before) * 4
    del large
    _measure_work(found, pids, inbox, manager)
    del kept, held
    with _timed(found, "take-over"):
        os.kill(manager, signal.SIGKILL)
        st.stats()
    for pid in pids:
        os.waitpid(pid, 0)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
