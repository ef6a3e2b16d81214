"""What the driver answers about order and death: namespaces, events, memory operations, running kernels."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

from bench.gpu.driver import (
    CHUNK,
    allocate,
    ask,
    child,
    create,
    driver,
    export,
    export_event,
    exporter,
    first_byte,
    import_,
    kill,
    map_chunk,
    need,
    open_event,
    open_handle,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NEW_MOUNTS, NEW_PIDS = 0x00020000, 0x20000000
BIG = 1 << 28
MANY = 20_000  # memsets of BIG: seconds of work on any GPU
LIBC = ctypes.CDLL(None, use_errno=True)


def _in_new_pids(body: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    """Run a function as process 1 of a PID namespace."""

    def outer(end: socket.socket) -> None:
        if LIBC.unshare(NEW_PIDS) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        if os.fork() == 0:
            signal.alarm(100)
            body(end)
            os._exit(0)
        os.wait()

    return outer


def _event(*, interprocess: bool = True) -> ctypes.c_void_p:
    event = ctypes.c_void_p()
    need(driver().cuEventCreate(ctypes.byref(event), 2 | (4 if interprocess else 0)))
    return event


def question_9() -> dict[str, Any]:
    """Opening from another PID namespace, with equal PIDs; with a /dev/shm of one's own: memory, event."""
    first, line = child(_in_new_pids(exporter))
    handle = line.recv(100)
    found: dict[str, Any] = {}
    if len(handle) != ctypes.sizeof(ctypes.c_ubyte * 64):
        return {"cannot ask": handle.decode(errors="replace")}

    def opener(end: socket.socket) -> None:
        end.send(str(open_handle(handle)[0]).encode())

    second, answer = child(_in_new_pids(opener))
    found["equal PIDs"] = int(answer.recv(100))
    kill(first)
    os.waitpid(second, 0)

    def both(end: socket.socket) -> None:
        event = _event()
        need(driver().cuEventRecord(event, None))
        end.send(export_event(event)[1])
        exporter(end)

    first, line = child(both)
    event, handle = line.recv(100), line.recv(100)

    def elsewhere() -> dict[str, int]:
        if LIBC.unshare(NEW_MOUNTS) != 0 or LIBC.mount(b"none", b"/", None, 1 << 18 | 1 << 14, None) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        if LIBC.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, None) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        return {"memory": open_handle(handle)[0], "event": open_event(event)[0]}

    found["own /dev/shm"] = ask(elsewhere)
    kill(first)
    return found


def _busy(event: ctypes.c_void_p | None = None) -> None:
    """Give the default stream seconds of work, the event behind it."""
    pointer = allocate(BIG)
    for number in range(MANY):
        need(driver().cuMemsetD8Async(pointer, ctypes.c_ubyte(number % 251), ctypes.c_size_t(BIG), None))
    if event is not None:
        need(driver().cuEventRecord(event, None))


def question_10() -> dict[str, Any]:
    """An event destroyed before it is opened; one whose process is killed before its work is done."""

    def destroyer(end: socket.socket) -> None:
        event = _event()
        need(driver().cuEventRecord(event, None))
        handle = export_event(event)[1]
        need(driver().cuEventDestroy_v2(event))
        end.send(handle)
        end.recv(10)

    pid, line = child(destroyer)
    handle = line.recv(100)
    found: dict[str, Any] = {"destroyed before": ask(lambda: open_event(handle)[0])}
    kill(pid)
    if "SHMTENSOR_LIBCUDA" in os.environ:
        return found  # its memsets take the processor's time, and what it would answer is written there

    def worker(end: socket.socket) -> None:
        event = _event()
        need(driver().cuEventRecord(event, None))
        end.send(export_event(event)[1])
        end.recv(10)
        _busy(event)
        end.send(b"busy")
        end.recv(10)

    pid, line = child(worker)
    handle = line.recv(100)

    def waiter() -> dict[str, Any]:
        code, event = open_event(handle)
        need(code)
        line.send(b"go")
        line.recv(10)
        before = driver().cuEventQuery(event)
        kill_only(pid)
        end = time.monotonic() + 10
        while (code := driver().cuEventQuery(event)) == 600 and time.monotonic() < end:
            time.sleep(0.01)
        return {"before": before, "after": code, "seconds": round(10 - (end - time.monotonic()), 2)}

    found["killed at work"] = ask(waiter)
    os.waitpid(pid, 0)
    return found


def kill_only(pid: int) -> None:
    """SIGKILL for somebody else's child."""
    os.kill(pid, signal.SIGKILL)


def question_14() -> dict[str, Any]:
    """64-bit writes and waits of a stream on a page that was imported."""

    def body() -> dict[str, Any]:
        driver()
        if not hasattr(driver(), "cuStreamWriteValue64_v2"):
            return {"absent": True}
        code, imported = import_(export(create())[1])
        need(code)
        pointer = map_chunk(imported)
        write = driver().cuStreamWriteValue64_v2(None, pointer, ctypes.c_uint64(5), 0)
        wait = driver().cuStreamWaitValue64_v2(None, pointer, ctypes.c_uint64(5), 0)
        return {"write": write, "wait": wait, "value": first_byte(pointer)}

    return ask(body)


def question_15() -> dict[str, Any]:
    """Does the work of a killed process still write after its end was told?"""
    if "SHMTENSOR_LIBCUDA" in os.environ:
        return {}  # its work is threads of the process
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def victim(end: socket.socket) -> None:
        _, descriptors, _, _ = socket.recv_fds(theirs, 10, 1)
        code, handle = import_(descriptors[0])
        need(code)
        pointer = map_chunk(handle)
        for number in range(200_000):
            value = ctypes.c_ubyte(number % 251)
            need(driver().cuMemsetD8Async(pointer, value, ctypes.c_size_t(CHUNK), None))
            if number == 1000:
                end.send(b"at work")

    pid, line = child(victim)

    def watch() -> dict[str, Any]:
        chunk = create()
        pointer = map_chunk(chunk)
        socket.send_fds(ours, [b"x"], [export(chunk)[1]])
        line.recv(10)
        descriptor = os.pidfd_open(pid)
        kill_only(pid)
        import select

        select.select([descriptor], [], [], 10)
        told, values = time.monotonic(), []
        while time.monotonic() < told + 1:
            values.append(first_byte(pointer))
        last = max((i for i in range(1, len(values)) if values[i] != values[i - 1]), default=0)
        return {"looks in a second": len(values), "last change at look": last}

    found = ask(watch)
    os.waitpid(pid, 0)
    return found
