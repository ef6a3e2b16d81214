"""Rules that the simulated driver assumes: contents, addresses, rights, contexts, descriptors."""

from __future__ import annotations

import ctypes
import resource
from typing import TYPE_CHECKING, Any

from probes.children import Child, ask
from probes.driver import (
    allocate,
    call,
    create,
    driver,
    export,
    export_event,
    exporter_of_both,
    handle_of,
    import_,
    map_chunk,
    need,
    new_event,
    open_event,
    open_handle,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 64 << 20


def _release(pointer: ctypes.c_uint64, chunk: ctypes.c_uint64, size: int) -> None:
    call("cuMemUnmap", pointer, ctypes.c_size_t(size))
    call("cuMemAddressFree", pointer, ctypes.c_size_t(size))
    call("cuMemRelease", chunk)


def contents_of_new_memory() -> dict[str, Any]:
    """Bytes that are not zero in new memory, after as much was filled and freed; and a reused address."""

    def filled(pointer: ctypes.c_uint64) -> int:
        host = ctypes.create_string_buffer(SIZE)
        size = ctypes.c_size_t(SIZE)
        call("cuMemcpyDtoHAsync_v2", host, pointer, size, None)
        call("cuMemsetD8Async", pointer, ctypes.c_ubyte(7), size, None)
        call("cuStreamSynchronize", None)
        return SIZE - host.raw.count(0)

    def plain() -> tuple[ctypes.c_uint64, Callable[[], None]]:
        pointer = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(SIZE))
        return pointer, lambda: call("cuMemFree_v2", pointer)

    def virtual() -> tuple[ctypes.c_uint64, Callable[[], None]]:
        chunk = create(SIZE)
        pointer = map_chunk(chunk, SIZE)
        return pointer, lambda: _release(pointer, chunk, SIZE)

    def again(make: Callable[[], tuple[ctypes.c_uint64, Callable[[], None]]]) -> dict[str, Any]:
        counts, addresses = [], []
        for _ in range(4):
            pointer, free = make()
            counts.append(filled(pointer))
            addresses.append(pointer.value)
            free()
        return {"not zero": max(counts[1:]), "address again": len(set(addresses)) < len(addresses)}

    return {"cuMemAlloc": ask(lambda: again(plain)), "cuMemCreate": ask(lambda: again(virtual))}


def write_without_the_right() -> dict[str, int]:
    """Results of a copy to a mapping for reading, and of the next call."""
    pointer = map_chunk(create(), access=1)
    code = driver().cuMemcpyHtoDAsync_v2(pointer, b"\7", ctypes.c_size_t(1), None)
    code = code or driver().cuStreamSynchronize(None)
    return {"copy": code, "next": driver().cuStreamSynchronize(None)}


def open_in_a_second_context() -> dict[str, int]:
    """Open memory and an event in another context, while they are open in the primary one."""
    exporting = Child(exporter_of_both)
    event, memory = exporting.handle(), exporting.handle()
    need(open_handle(memory)[0], "cuIpcOpenMemHandle")
    need(open_event(event)[0], "cuIpcOpenEventHandle")
    call("cuCtxCreate_v2", ctypes.byref(ctypes.c_void_p()), 0, 0)
    return {"memory": open_handle(memory)[0], "event": open_event(event)[0]}


def attributes_of_plain_memory() -> dict[str, int]:
    """Attributes of memory of cuMemAlloc: legacy IPC, and a new BUFFER_ID at the same address."""
    capable, first, second = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_uint64()
    pointer = allocate()
    call("cuPointerGetAttribute", ctypes.byref(capable), 10, pointer)
    call("cuPointerGetAttribute", ctypes.byref(first), 7, pointer)
    call("cuMemFree_v2", pointer)
    again = allocate()
    call("cuPointerGetAttribute", ctypes.byref(second), 7, again)
    return {
        "IPC capable": capable.value,
        "same address": int(again.value == pointer.value),
        "same BUFFER_ID": int(first.value == second.value),
    }


def calls_without_a_descriptor() -> dict[str, Any]:
    """Results of calls that need a descriptor while the process can have no more."""
    exporting = Child(exporter_of_both)
    event, memory = exporting.handle(), exporting.handle()
    first, second = create(), create()
    code, descriptor = export(first)
    need(code, "cuMemExportToShareableHandle")
    mine, pointer = new_event(), allocate()
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return {
        "cuMemExportToShareableHandle": export(second)[0],
        "cuMemImportFromShareableHandle": import_(descriptor)[0],
        "cuIpcGetMemHandle": handle_of(pointer)[0],
        "cuIpcOpenMemHandle": open_handle(memory)[0],
        "cuIpcGetEventHandle": export_event(mine)[0],
        "cuIpcOpenEventHandle": open_event(event)[0],
    }
