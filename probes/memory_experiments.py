"""Driver behaviour on memory: handles, descriptors, forks, sizes."""

from __future__ import annotations

import ctypes
import fcntl
import signal
import socket
import time
from pathlib import Path
from typing import Any

from probes.children import Child, ask
from probes.driver import (
    CHUNK,
    Properties,
    allocate,
    call,
    create,
    driver,
    export,
    exporter,
    first_byte,
    handle_of,
    import_,
    need,
    open_handle,
)


def open_handle_after_exporter_exit() -> dict[str, Any]:
    """Result of cuIpcOpenMemHandle after the exporter exits, is killed, or frees the memory."""

    def opened(how: str) -> int:
        exporting = Child(exporter)
        handle = exporting.handle()
        if how == "kill":
            exporting.kill()
        else:
            exporting.send(how.encode())
            if how == "free":
                exporting.receive()
            elif exporting.wait() is None:
                raise TimeoutError("the exporter did not exit")
        return open_handle(handle)[0]

    return {how: ask(lambda how=how: opened(how)) for how in ("exit", "kill", "free")}


def read_mapping_after_exporter_kill() -> dict[str, Any]:
    """Read through a mapping after the exporter was killed."""
    exporting = Child(exporter)
    code, pointer = open_handle(exporting.handle())
    need(code, "cuIpcOpenMemHandle")
    before = first_byte(pointer)
    exporting.kill()
    time.sleep(0.5)
    return {"before": before, "after": first_byte(pointer)}


def import_descriptor_left_in_socket() -> dict[str, Any]:
    """Import a descriptor that is only in a socket buffer, after its exporter was killed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def body(end: socket.socket) -> None:
        code, descriptor = export(create())
        need(code, "cuMemExportToShareableHandle")
        socket.send_fds(theirs, [b"x"], [descriptor])
        end.send(b"sent")
        signal.pause()

    exporting = Child(body)
    exporting.receive()
    exporting.kill()
    _, descriptors, _, _ = socket.recv_fds(ours, 10, 1)
    driver()
    return {"import": import_(descriptors[0])[0]}


def export_imported_memory() -> dict[str, Any]:
    """Export imported memory again; report if close-on-exec is set, and what the descriptor is."""
    code, descriptor = export(create())
    need(code, "cuMemExportToShareableHandle")
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFD)
    code, handle = import_(descriptor)
    need(code, "cuMemImportFromShareableHandle")
    return {
        "export again": export(handle)[0],
        "close-on-exec": bool(flags & fcntl.FD_CLOEXEC),
        "descriptor": str(Path("/proc/self/fd", str(descriptor)).readlink()),
    }


def handle_of_interior_and_freed_pointer() -> dict[str, Any]:
    """Result of cuIpcGetMemHandle for interior, freed and imported pointers."""

    def own() -> dict[str, Any]:
        pointer = allocate()
        inner = handle_of(ctypes.c_uint64(pointer.value + 4096))
        found = {"interior": inner[0], "interior is the same": inner[1] == handle_of(pointer)[1]}
        call("cuMemFree_v2", pointer)
        return found | {"freed": handle_of(pointer)[0]}

    def opened() -> int:
        exporting = Child(exporter)  # the child runs as long as its socket is open
        code, pointer = open_handle(exporting.handle())
        need(code, "cuIpcOpenMemHandle")
        return handle_of(pointer)[0]

    return ask(own) | {"opened": ask(opened)}


def driver_calls_in_forked_child() -> dict[str, Any]:
    """Results of driver calls in a forked child."""
    pointer, library = allocate(), driver()

    def forked() -> dict[str, Any]:
        other = ctypes.c_uint64()
        return {
            "cuInit": library.cuInit(0),
            "cuMemAlloc": library.cuMemAlloc_v2(ctypes.byref(other), ctypes.c_size_t(CHUNK)),
            "cuMemFree": library.cuMemFree_v2(pointer),
        }

    return ask(forked)


def open_own_handle() -> dict[str, Any]:
    """Open a handle in the process that exported it; close memory that was never opened."""
    pointer = allocate()
    return {
        "open own": open_handle(handle_of(pointer)[1])[0],
        "close other": driver().cuIpcCloseMemHandle(pointer),
    }


def virtual_memory_granularity() -> dict[str, Any]:
    """Granularity of virtual memory."""
    size = ctypes.c_size_t()
    properties = Properties(1, 1, 1, 0)
    found = {}
    for name, kind in (("minimum", 0), ("recommended", 1)):
        call("cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(properties), kind)
        found[name] = size.value
    return found
