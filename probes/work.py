"""GPU work that is still queued when its process is killed.

A stream accepts about a thousand operations before a call blocks, so each operation has to take long:
setting 8 GiB takes a GPU with 4.8 TB/s 2 ms, and all queued operations a second or two.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import time
from typing import Any

from probes.children import Child
from probes.driver import CHUNK, call, create, export, first_byte, import_, map_chunk, need, room

MOST = 8 << 30
QUEUED = 400  # accepted without blocking
TURNS = 10 * QUEUED
WATCH = 3.0  # seconds; longer than the queued work


def size_of_a_turn() -> int:
    """Return the number of bytes that each operation sets; far less than a small or simulated GPU has."""
    return min(MOST, room() // 16) // CHUNK * CHUNK


def queue(pointer: ctypes.c_uint64, size: int, turns: int) -> None:
    """Queue operations that set all bytes to a different value each time; do not wait for them."""
    for turn in range(turns):
        call("cuMemsetD8Async", pointer, ctypes.c_ubyte(turn % 251), ctypes.c_size_t(size), None)


def device_work_after_process_exit() -> dict[str, Any]:
    """Observe if GPU work of a killed process still writes after its socket and its pidfd report the exit."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def worker(end: socket.socket) -> None:
        size, descriptors, _, _ = socket.recv_fds(theirs, 20, 1)
        code, handle = import_(descriptors[0])
        need(code, "cuMemImportFromShareableHandle")
        pointer = map_chunk(handle, int(size))
        queue(pointer, int(size), QUEUED)
        end.send(b"at work")
        queue(pointer, int(size), TURNS - QUEUED)
        end.recv(10)

    working = Child(worker)
    size = size_of_a_turn()
    chunk = create(size)
    pointer = map_chunk(chunk, size)
    code, descriptor = export(chunk)
    need(code, "cuMemExportToShareableHandle")
    socket.send_fds(ours, [str(size).encode()], [descriptor])
    working.receive()
    return _watch_a_death(working, pointer)


def _watch_a_death(working: Child, pointer: ctypes.c_uint64) -> dict[str, Any]:
    """Kill the process, poll the first byte, and count its changes since each event."""
    poller, names = select.poll(), {working.line.fileno(): "the socket's end"}
    poller.register(working.line, 0)  # POLLHUP is always reported
    with contextlib.suppress(OSError):  # not supported by the kernel
        pidfd = os.pidfd_open(working.pid)
        names[pidfd] = "the pidfd's end"
        poller.register(pidfd, select.POLLIN)
    changes = {"the first look": 0}
    seconds: dict[str, float] = {}
    last, began = first_byte(pointer), time.monotonic()
    while time.monotonic() < began + WATCH:
        seen = changes["the first look"] > 5 or time.monotonic() > began + WATCH / 2
        if seen and "the kill" not in changes:
            os.kill(working.pid, signal.SIGKILL)
            began, changes["the kill"] = time.monotonic(), 0
        for file, _ in poller.poll(0):
            poller.unregister(file)
            changes[names[file]], seconds[names[file]] = 0, time.monotonic() - began
            last = first_byte(pointer)  # written before or after the check
        value = first_byte(pointer)
        if value != last:
            changes = {name: count + 1 for name, count in changes.items()}
            seconds["the last change"] = time.monotonic() - began
        last = value
    found: dict[str, Any] = {"changes since": changes, "last value": last}
    if "SHMTENSOR_LIBCUDA" not in os.environ:
        found["ms after the kill"] = {name: round(each * 1e3, 2) for name, each in seconds.items()}
    return found
