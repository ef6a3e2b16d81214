"""Driver behaviour while the device works: which calls wait for it, and what a dead event keeps waiting."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

from probes.children import Child, ask
from probes.driver import (
    CHUNK,
    allocate,
    call,
    create,
    driver,
    exporter,
    map_chunk,
    need,
    new_event,
    open_event,
    open_handle,
    send_event,
)
from probes.work import QUEUED, queue, size_of_a_turn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

NOT_READY = 600
TURNS = 100  # of device work: 0.2 s on a GPU with 4.8 TB/s
TIMEOUT = 3.0  # seconds to wait for an event whose process is dead
WHOLE = ctypes.c_size_t(CHUNK)


def _returns_first(body: Callable[[], Any]) -> bool:
    """Return True if a call returns while earlier work of the device runs."""
    size, event = size_of_a_turn(), new_event()
    pointer = allocate(size)
    queue(pointer, size, TURNS)
    call("cuEventRecord", event, None)
    body()
    code = driver().cuEventQuery(event)
    if code != NOT_READY:
        need(code, "cuEventQuery")
    call("cuCtxSynchronize")
    return bool(code == NOT_READY)


def calls_that_return_during_work() -> dict[str, Any]:
    """Find out which calls return while the device works, instead of waiting for it."""
    exporting = Child(exporter)  # forked before this process uses the driver
    handle = exporting.handle()

    def release() -> Callable[[], None]:
        chunk = create()
        return lambda: call("cuMemRelease", chunk)

    def unmap() -> Callable[[], None]:
        mapped = map_chunk(create())
        return lambda: call("cuMemUnmap", mapped, WHOLE)

    def close() -> Callable[[], None]:
        code, opened = open_handle(handle)
        need(code, "cuIpcOpenMemHandle")
        return lambda: call("cuIpcCloseMemHandle", opened)

    def free() -> Callable[[], None]:
        pointer = allocate()
        return lambda: call("cuMemFree_v2", pointer)

    def read() -> Callable[[], None]:
        pointer, host = allocate(), ctypes.create_string_buffer(1 << 16)
        size = ctypes.c_size_t(len(host))
        return lambda: call("cuMemcpyDtoHAsync_v2", host, pointer, size, None)

    def write() -> Callable[[], None]:
        pointer, host = allocate(), ctypes.create_string_buffer(1 << 20)
        size = ctypes.c_size_t(len(host))
        return lambda: call("cuMemcpyHtoDAsync_v2", pointer, host, size, None)

    prepared = {
        "cuMemAlloc": lambda: allocate_only,
        "cuMemFree": free,
        "cuMemCreate": lambda: create,
        "cuMemRelease": release,
        "map": lambda: lambda: map_chunk(create()),
        "cuMemUnmap": unmap,
        "cuIpcOpenMemHandle": lambda: lambda: need(open_handle(handle)[0], "cuIpcOpenMemHandle"),
        "cuIpcCloseMemHandle": close,
        "copy to pageable memory": read,
        "copy from pageable memory": write,
    }

    def one(name: str) -> bool:
        driver()
        return _returns_first(prepared[name]())

    return {name: ask(lambda name=name: one(name)) for name in prepared}


def allocate_only() -> None:
    """Allocate without a copy, which would wait by itself."""
    call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), WHOLE)


def killed_with_queued_event(then: Callable[[ctypes.c_void_p], int]) -> dict[str, int]:
    """Kill a process whose event comes after queued work; return what is found before and after."""

    def worker(end: socket.socket) -> None:
        event = new_event()
        send_event(end, event)
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
    return {"before": before, "after": then(event)}


def until_ready(query: Callable[[], int]) -> int:
    """Return the result of a query once it is not CUDA_ERROR_NOT_READY, or after the time limit."""
    end = time.monotonic() + TIMEOUT
    while (code := query()) == NOT_READY and time.monotonic() < end:
        time.sleep(0.01)
    return code


def query_event_of_killed_process() -> Any:
    """Query an event whose process was killed while its work was queued."""
    return killed_with_queued_event(lambda event: until_ready(lambda: driver().cuEventQuery(event)))


def wait_for_event_of_killed_process() -> Any:
    """Query a stream that waits for such an event, and other work afterwards."""

    def wait(event: ctypes.c_void_p) -> int:
        stream = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(stream), 1)
        call("cuStreamWaitEvent", stream, event, 0)
        return until_ready(lambda: driver().cuStreamQuery(stream))

    return killed_with_queued_event(wait) | {"other streams": driver().cuStreamSynchronize(None)}
