"""Which calls the driver refuses while a stream is being captured into a CUDA graph."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING, Any

from probes.children import Child, ask
from probes.driver import (
    CHUNK,
    Handle,
    allocate,
    call,
    create,
    driver,
    export,
    exporter,
    map_chunk,
    new_event,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NON_BLOCKING, GLOBAL = 1, 0
# The arguments of each call. What is made for them is made before the capture, in the order of the list.
CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "cuMemAlloc_v2": lambda: (ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(CHUNK)),
    "cuMemFree_v2": lambda: (allocate(),),
    "cuMemRelease": lambda: (create(),),
    "cuMemUnmap": lambda: (map_chunk(create()), ctypes.c_size_t(CHUNK)),
    "cuMemExportToShareableHandle": lambda: (ctypes.byref(ctypes.c_int()), create(), 1, 0),
    "cuMemImportFromShareableHandle": lambda: (
        ctypes.byref(ctypes.c_uint64()),
        ctypes.c_void_p(export(create())[1]),
        1,
    ),
    "cuPointerGetAttribute": lambda: (ctypes.byref(ctypes.c_uint64()), 7, allocate()),
    "cuIpcGetMemHandle": lambda: (ctypes.byref(Handle()), allocate()),
    "cuIpcOpenMemHandle_v2": lambda: (ctypes.byref(ctypes.c_uint64()), _handle(), 1),
    "cuIpcGetEventHandle": lambda: (ctypes.byref(Handle()), _done()),
    "cuEventCreate": lambda: (ctypes.byref(ctypes.c_void_p()), 2),
    "cuEventQuery": lambda: (_done(),),
    "cuEventSynchronize": lambda: (_done(),),
    "cuEventDestroy_v2": lambda: (_done(),),
    "cuStreamCreate": lambda: (ctypes.byref(ctypes.c_void_p()), NON_BLOCKING),
    "cuStreamQuery": lambda: (ctypes.c_void_p(1),),
    "cuStreamSynchronize": lambda: (ctypes.c_void_p(1),),
    "cuCtxSynchronize": lambda: (),
    "cuCtxRecordEvent": lambda: (_context(), _done()),
    "cuMemHostRegister_v2": lambda: (_host_memory(), ctypes.c_size_t(CHUNK), 1),
    "cuMemHostUnregister": lambda: (_registered(),),
}
_exporting: Child | None = None
_kept: list[mmap.mmap] = []


def _handle() -> Handle:
    assert _exporting is not None
    return Handle.from_buffer_copy(_exporting.handle())


def _done() -> ctypes.c_void_p:
    event = new_event()
    call("cuStreamSynchronize", None)
    return event


def _context() -> ctypes.c_void_p:
    context = ctypes.c_void_p()
    driver()
    call("cuCtxGetCurrent", ctypes.byref(context))
    return context


def _host_memory() -> ctypes.c_void_p:
    memory = mmap.mmap(-1, CHUNK)
    _kept.append(memory)
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))


def _registered() -> ctypes.c_void_p:
    memory = _host_memory()
    driver()
    call("cuMemHostRegister_v2", memory, ctypes.c_size_t(CHUNK), 1)
    return memory


def _captured(name: str, mode: int) -> list[int]:
    global _exporting
    _exporting = Child(exporter)  # forked before this process uses the driver
    driver()
    arguments, stream = CALLS[name](), ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
    call("cuThreadExchangeStreamCaptureMode", ctypes.byref(ctypes.c_int(mode)))
    call("cuStreamBeginCapture_v2", stream, GLOBAL)
    code = getattr(driver(), name)(*arguments)
    return [code, driver().cuStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p()))]


def calls_during_a_capture() -> dict[str, Any]:
    """Results of calls, and of the end of the capture in the global mode during which they are made."""
    return {name: ask(lambda name=name: _captured(name, GLOBAL)) for name in CALLS}


def relaxed_calls_during_a_capture() -> dict[str, Any]:
    """The same for a thread in the relaxed mode."""
    return {name: ask(lambda name=name: _captured(name, 2)) for name in CALLS}
