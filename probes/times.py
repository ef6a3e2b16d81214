"""Times of single driver calls, by size."""

from __future__ import annotations

import ctypes
import os
import time
from typing import TYPE_CHECKING, Any

from probes.children import Child, ask
from probes.driver import (
    allocate,
    call,
    create,
    driver,
    export,
    handle_of,
    import_,
    map_chunk,
    need,
    open_handle,
    room,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

SIZES = {"2 MiB": 2 << 20, "64 MiB": 64 << 20, "1 GiB": 1 << 30, "16 GiB": 16 << 30}
ROUNDS = 5


def time_import_and_mapping() -> Any:
    """Return the microseconds of each of five consecutive calls, by function and size."""
    free = ask(room)
    if not isinstance(free, int):
        return free
    return {name: ask(lambda size=size: _calls(size)) for name, size in SIZES.items() if 4 * size < free}


def _exporter_of(size: int) -> Callable[[socket.socket], None]:
    def body(end: socket.socket) -> None:
        code, handle = handle_of(allocate(size))
        need(code, "cuIpcGetMemHandle")
        end.send(handle)
        end.recv(10)

    return body


def _calls(size: int) -> dict[str, Any]:
    exporting = Child(_exporter_of(size))  # runs before this process has started the driver
    handle = exporting.handle()
    driver()
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        _round(size, handle, times)
    return {"calls": sorted(times)} if "SHMTENSOR_LIBCUDA" in os.environ else times


def _round(size: int, handle: bytes, times: dict[str, list[float]]) -> None:
    def timed(name: str, body: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = body()
        times.setdefault(name, []).append(round((time.perf_counter() - start) * 1e6, 1))
        return result

    whole = ctypes.c_size_t(size)
    pointer = timed("cuMemAlloc", lambda: allocate(size))
    code, _ = timed("cuIpcGetMemHandle", lambda: handle_of(pointer))
    need(code, "cuIpcGetMemHandle")
    timed("cuMemFree", lambda: call("cuMemFree_v2", pointer))
    code, opened = timed("cuIpcOpenMemHandle", lambda: open_handle(handle))
    need(code, "cuIpcOpenMemHandle")
    timed("cuIpcCloseMemHandle", lambda: call("cuIpcCloseMemHandle", opened))
    chunk = timed("cuMemCreate", lambda: create(size))
    code, descriptor = timed("cuMemExportToShareableHandle", lambda: export(chunk))
    need(code, "cuMemExportToShareableHandle")
    code, imported = timed("cuMemImportFromShareableHandle", lambda: import_(descriptor))
    need(code, "cuMemImportFromShareableHandle")
    os.close(descriptor)
    mapped = timed("reserve, map, set access", lambda: map_chunk(imported, size))
    timed("cuMemUnmap", lambda: call("cuMemUnmap", mapped, whole))
    call("cuMemAddressFree", mapped, whole)
    call("cuMemRelease", imported)
    timed("the last cuMemRelease", lambda: call("cuMemRelease", chunk))
