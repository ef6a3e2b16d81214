"""How long single calls of the driver take, by size."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

from bench.gpu.driver import (
    allocate,
    ask,
    child,
    create,
    driver,
    export,
    handle_of,
    import_,
    kill,
    map_chunk,
    need,
    open_handle,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

SIZES = {"2 MiB": 2 << 20, "64 MiB": 64 << 20, "1 GiB": 1 << 30, "16 GiB": 16 << 30}


def question_11() -> dict[str, Any]:
    """Microseconds of single calls, by size."""
    return {
        name: ask(lambda size=size: _calls(size)) for name, size in SIZES.items() if ask(_room) > 3 * size
    }


def _room() -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    need(driver().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value


def _exporter_of(size: int) -> Callable[[socket.socket], None]:
    def body(end: socket.socket) -> None:
        end.send(handle_of(allocate(size))[1])
        end.recv(10)

    return body


def _calls(size: int) -> dict[str, float]:
    times = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        times[name] = round((time.perf_counter() - start) * 1e6, 1)
        return result

    pid, line = child(_exporter_of(size))  # before this process has started the driver
    handle = line.recv(100)
    driver()
    pointer = timed("cuMemAlloc", lambda: allocate(size))
    timed("cuIpcGetMemHandle", lambda: handle_of(pointer))
    timed("cuMemFree", lambda: need(driver().cuMemFree_v2(pointer)))
    code, opened = timed("cuIpcOpenMemHandle", lambda: open_handle(handle))
    need(code)
    timed("cuIpcCloseMemHandle", lambda: need(driver().cuIpcCloseMemHandle(opened)))
    kill(pid)
    chunk = timed("cuMemCreate", lambda: create(size))
    _, descriptor = timed("cuMemExportToShareableHandle", lambda: export(chunk))
    _, imported = timed("cuMemImportFromShareableHandle", lambda: import_(descriptor))
    mapped = timed("reserve, map, set access", lambda: map_chunk(imported, size))
    timed("cuMemUnmap", lambda: need(driver().cuMemUnmap(mapped, ctypes.c_size_t(size))))
    return times
