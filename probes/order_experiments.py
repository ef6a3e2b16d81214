"""Driver behaviour on order: namespaces, events, memory operations of a stream."""

from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Any

from probes.children import Child, ask, in_new_pids, private_mounts
from probes.driver import (
    call,
    create,
    driver,
    export,
    export_event,
    exporter,
    exporter_of_both,
    first_byte,
    import_,
    map_chunk,
    need,
    new_event,
    open_event,
    open_handle,
)

if TYPE_CHECKING:
    import socket


def open_handle_across_namespaces() -> dict[str, Any]:
    """Open memory and events from another PID namespace with equal PIDs, and with another /dev/shm."""

    def equal_pids() -> Any:
        exporting = Child(in_new_pids(exporter))  # the child runs as long as its socket is open
        handle = exporting.handle()
        opener = Child(in_new_pids(lambda end: end.send(json.dumps(open_handle(handle)[0]).encode())))
        return opener.answer()

    def own_dev_shm() -> dict[str, int]:
        exporting = Child(exporter_of_both)
        event, handle = exporting.handle(), exporting.handle()
        if private_mounts().mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, None) != 0:
            raise OSError(ctypes.get_errno(), "cannot mount a /dev/shm")
        return {"memory": open_handle(handle)[0], "event": open_event(event)[0]}

    return {"equal PIDs": ask(equal_pids), "own /dev/shm": ask(own_dev_shm)}


def open_event_of_killed_process() -> int:
    """Result of cuIpcOpenEventHandle after its process was killed."""
    exporting = Child(exporter_of_both)
    handle = exporting.handle()
    exporting.kill()
    return open_event(handle)[0]


def open_destroyed_event() -> int:
    """Result of cuIpcOpenEventHandle after the event was destroyed."""

    def destroyer(end: socket.socket) -> None:
        event = new_event()
        code, handle = export_event(event)
        need(code, "cuIpcGetEventHandle")
        call("cuEventDestroy_v2", event)
        end.send(handle)
        end.recv(10)

    destroying = Child(destroyer)
    return open_event(destroying.handle())[0]


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
