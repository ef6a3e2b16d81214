"""The driver through ctypes, for the experiments of `probes.facts`."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

CHUNK = 2 << 20
_driver: Any = None


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location", ctypes.c_int),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("type", ctypes.c_int), ("location", ctypes.c_int), ("flags", ctypes.c_int))


class Handle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


def driver() -> Any:
    """Return the driver with device 0's primary context current in this thread."""
    global _driver
    if _driver is None:
        _driver = ctypes.CDLL(os.environ.get("SHMTENSOR_LIBCUDA", "libcuda.so.1"))
        need(_driver.cuInit(0), "cuInit")
    context = ctypes.c_void_p()
    _driver.cuCtxGetCurrent(ctypes.byref(context))
    if not context.value:
        need(_driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
        need(_driver.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
    return _driver


def need(code: int, function: str) -> None:
    """Raise if a step of an experiment failed."""
    if code != 0:
        name = ctypes.c_char_p()
        _driver.cuGetErrorName(code, ctypes.byref(name))
        raise RuntimeError(f"{function}: the driver answered {code}, {(name.value or b'unknown').decode()}")


def call(function: str, *arguments: Any) -> None:
    """Run such a step, a driver function by its exported name."""
    need(getattr(driver(), function)(*arguments), function)


def room() -> int:
    """Return the free bytes of the device."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value


def allocate(size: int = CHUNK) -> ctypes.c_uint64:
    """Return memory of cuMemAlloc that begins with a 7."""
    pointer = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
    call("cuMemcpyHtoDAsync_v2", pointer, b"\7", ctypes.c_size_t(1), None)
    call("cuStreamSynchronize", None)
    return pointer


def array_interface(pointer: ctypes.c_uint64, size: int, typestr: str = "|u1") -> dict[str, Any]:
    """Return the `__cuda_array_interface__` of so many elements, written in the default stream."""
    return {
        "version": 3,
        "shape": (size,),
        "typestr": typestr,
        "data": (pointer.value, False),
        "strides": None,
        "stream": 1,
    }


def handle_of(pointer: ctypes.c_uint64) -> tuple[int, bytes]:
    """Return the result of cuIpcGetMemHandle, and the bytes."""
    handle = Handle()
    return driver().cuIpcGetMemHandle(ctypes.byref(handle), pointer), bytes(handle)


def open_handle(content: bytes) -> tuple[int, ctypes.c_uint64]:
    """Return the result of cuIpcOpenMemHandle, and the address."""
    pointer = ctypes.c_uint64()
    handle = Handle.from_buffer_copy(content)
    return driver().cuIpcOpenMemHandle_v2(ctypes.byref(pointer), handle, 1), pointer


def create(size: int = CHUNK) -> ctypes.c_uint64:
    """Return a shareable chunk of virtual memory."""
    handle = ctypes.c_uint64()
    properties, flags = Properties(1, 1, 1, 0), ctypes.c_uint64(0)
    call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), flags)
    return handle


def export(handle: ctypes.c_uint64) -> tuple[int, int]:
    """Return the result of cuMemExportToShareableHandle, and the descriptor."""
    descriptor = ctypes.c_int(-1)
    return driver().cuMemExportToShareableHandle(ctypes.byref(descriptor), handle, 1, 0), descriptor.value


def import_(descriptor: int) -> tuple[int, ctypes.c_uint64]:
    """Return the result of cuMemImportFromShareableHandle, and the handle."""
    handle = ctypes.c_uint64()
    return driver().cuMemImportFromShareableHandle(
        ctypes.byref(handle), ctypes.c_void_p(descriptor), 1
    ), handle


def first_byte(pointer: ctypes.c_uint64) -> int:
    """Return the first byte of the memory; the negative driver error if it cannot be read."""
    content = ctypes.create_string_buffer(1)
    code = driver().cuMemcpyDtoHAsync_v2(content, pointer, ctypes.c_size_t(1), None)
    code = code or driver().cuStreamSynchronize(None)
    return -code if code else content.raw[0]


def new_event() -> ctypes.c_void_p:
    """Return a recorded event that processes can share."""
    event = ctypes.c_void_p()
    call("cuEventCreate", ctypes.byref(event), 2 | 4)
    call("cuEventRecord", event, None)
    return event


def send_event(end: socket.socket, event: ctypes.c_void_p) -> None:
    """Send the handle of an event."""
    code, handle = export_event(event)
    need(code, "cuIpcGetEventHandle")
    end.send(handle)


def export_event(event: ctypes.c_void_p) -> tuple[int, bytes]:
    """Return the result of cuIpcGetEventHandle, and the bytes."""
    handle = Handle()
    return driver().cuIpcGetEventHandle(ctypes.byref(handle), event), bytes(handle)


def open_event(content: bytes) -> tuple[int, ctypes.c_void_p]:
    """Return the result of cuIpcOpenEventHandle, and the event."""
    event = ctypes.c_void_p()
    handle = Handle.from_buffer_copy(content)
    return driver().cuIpcOpenEventHandle(ctypes.byref(event), handle), event


def map_chunk(handle: ctypes.c_uint64, size: int = CHUNK, access: int = 3) -> ctypes.c_uint64:
    """Map a chunk and return its address; access 1 to read, 3 to write too."""
    pointer = ctypes.c_uint64()
    whole, none = ctypes.c_size_t(size), ctypes.c_size_t(0)
    zero = ctypes.c_uint64(0)
    call("cuMemAddressReserve", ctypes.byref(pointer), whole, none, zero, zero)
    call("cuMemMap", pointer, whole, none, handle, zero)
    right = Access(1, 0, access)
    call("cuMemSetAccess", pointer, whole, ctypes.byref(right), ctypes.c_size_t(1))
    return pointer


def exporter(end: socket.socket) -> None:
    """Send the handle of an allocation; free it on request; run until killed."""
    pointer = allocate()
    code, handle = handle_of(pointer)
    need(code, "cuIpcGetMemHandle")
    end.send(handle)
    if end.recv(10) == b"free":
        call("cuMemFree_v2", pointer)
        end.send(b"freed")
        end.recv(10)


def exporter_of_both(end: socket.socket) -> None:
    """Send the handle of an event, then do as `exporter`."""
    send_event(end, new_event())
    exporter(end)
