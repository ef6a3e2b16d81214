"""Driver behaviour on order: namespaces, events, memory operations of a stream."""

from __future__ import annotations

import ctypes
import json
import time
from typing import TYPE_CHECKING, Any

from bench.gpu.children import Child, ask, in_new_pids
from bench.gpu.driver import (
    allocate,
    call,
    create,
    driver,
    export,
    export_event,
    exporter,
    first_byte,
    import_,
    map_chunk,
    need,
    open_event,
    open_handle,
)
from bench.gpu.work import QUEUED, queue, size_of_a_turn

if TYPE_CHECKING:
    import socket

NEW_MOUNTS = 0x00020000
TIMEOUT = 3.0  # for an event whose process is dead


def _event() -> ctypes.c_void_p:
    """Return a recorded event that processes can share."""
    event = ctypes.c_void_p()
    call("cuEventCreate", ctypes.byref(event), 2 | 4)
    call("cuEventRecord", event, None)
    return event


def _send_event(end: socket.socket, event: ctypes.c_void_p) -> None:
    code, handle = export_event(event)
    need(code, "cuIpcGetEventHandle")
    end.send(handle)


def open_handle_across_namespaces() -> dict[str, Any]:
    """Open memory and events from another PID namespace with equal PIDs, and with another /dev/shm."""

    def equal_pids() -> Any:
        exporting = Child(in_new_pids(exporter))  # the child runs as long as its socket is open
        handle = exporting.handle()
        opener = Child(in_new_pids(lambda end: end.send(json.dumps(open_handle(handle)[0]).encode())))
        return opener.answer()

    def own_dev_shm() -> dict[str, int]:
        def both(end: socket.socket) -> None:
            _send_event(end, _event())
            exporter(end)

        exporting = Child(both)
        event, handle = exporting.handle(), exporting.handle()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(NEW_MOUNTS) != 0 or libc.mount(b"none", b"/", None, 1 << 18 | 1 << 14, None) != 0:
            raise OSError(ctypes.get_errno(), "cannot make a mount namespace")
        if libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, None) != 0:
            raise OSError(ctypes.get_errno(), "cannot mount a /dev/shm")
        return {"memory": open_handle(handle)[0], "event": open_event(event)[0]}

    return {"equal PIDs": ask(equal_pids), "own /dev/shm": ask(own_dev_shm)}


def open_event_of_dead_process() -> dict[str, Any]:
    """Open an event after it was destroyed; query one whose process was killed while its work was queued."""

    def destroyed() -> int:
        def destroyer(end: socket.socket) -> None:
            event = _event()
            code, handle = export_event(event)
            need(code, "cuIpcGetEventHandle")
            call("cuEventDestroy_v2", event)
            end.send(handle)
            end.recv(10)

        destroying = Child(destroyer)
        return open_event(destroying.handle())[0]

    def killed() -> dict[str, Any]:
        def worker(end: socket.socket) -> None:
            event = _event()
            _send_event(end, event)
            size = size_of_a_turn()
            pointer = allocate(size)
            end.recv(10)
            queue(pointer, size, QUEUED)
            call("cuEventRecord", event, None)
            end.send(b"at work")
            end.recv(10)

        working = Child(worker)
        code, event = open_event(working.handle())
        need(code, "cuIpcOpenEventHandle")
        working.send(b"go")
        working.receive()
        before = driver().cuEventQuery(event)
        working.kill()
        end = time.monotonic() + TIMEOUT
        while (code := driver().cuEventQuery(event)) == 600 and time.monotonic() < end:
            time.sleep(0.01)
        return {"before": before, "after": code}

    return {"destroyed before": ask(destroyed), "killed at work": ask(killed)}


def stream_memory_operations_on_import() -> dict[str, Any]:
    """64-bit stream writes and waits on an imported page."""
    if not hasattr(driver(), "cuStreamWriteValue64_v2"):
        return {"absent": True}
    code, descriptor = export(create())
    need(code, "cuMemExportToShareableHandle")
    code, imported = import_(descriptor)
    need(code, "cuMemImportFromShareableHandle")
    pointer = map_chunk(imported)
    write = driver().cuStreamWriteValue64_v2(None, pointer, ctypes.c_uint64(5), 0)
    wait = driver().cuStreamWaitValue64_v2(None, pointer, ctypes.c_uint64(5), 0)
    return {"write": write, "wait": wait, "value": first_byte(pointer)}
