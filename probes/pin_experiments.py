"""Shared host memory that is registered with the driver, and events that cover all streams of a context.

They ask what pinned memory depends on. tests/cuda/driver_rules.py lists the rules that the simulated driver
follows; its other answers mean nothing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from typing import TYPE_CHECKING, Any

from probes.children import Child
from probes.driver import allocate, call, driver, first_byte, need

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

MIB = 1 << 20
PORTABLE, READ_ONLY = 1, 8
NON_BLOCKING = 1


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


class Shared:
    """A mapping of a file in memory, whose pages exist."""

    def __init__(
        self, size: int, *, file: int | None = None, protection: int = 3, pages: bool = True
    ) -> None:
        self.file = os.memfd_create("pin") if file is None else file
        self.size = size
        os.ftruncate(self.file, size)
        if pages:
            os.posix_fallocate(self.file, 0, size)
        self.address: int = _libc.mmap(None, size, protection, mmap.MAP_SHARED, self.file, 0)

    def register(self, first: int = 0, size: int | None = None, flags: int = PORTABLE) -> int:
        """Return the result of cuMemHostRegister for the bytes, all by default."""
        whole = ctypes.c_size_t(self.size - first if size is None else size)
        code: int = driver().cuMemHostRegister_v2(ctypes.c_void_p(self.address + first), whole, flags)
        return code

    def unregister(self, first: int = 0) -> int:
        """Return the result of cuMemHostUnregister."""
        code: int = driver().cuMemHostUnregister(ctypes.c_void_p(self.address + first))
        return code

    def used(self) -> int:
        """Return the bytes of the file's pages."""
        return os.fstat(self.file).st_blocks * 512

    def write(self, value: int) -> None:
        """Set each byte."""
        ctypes.memset(self.address, value, self.size)

    def copy(self, to: Any, stream: Any = None, first: int = 0, size: int | None = None) -> int:
        """Return the result of a copy of the bytes to the device."""
        return copy(self.address + first, self.size if size is None else size, to, stream)


def copy(address: int, size: int, to: Any, stream: Any = None) -> int:
    """Return the result of a copy to the device."""
    code: int = driver().cuMemcpyHtoDAsync_v2(to, ctypes.c_void_p(address), ctypes.c_size_t(size), stream)
    return code


def new_stream() -> ctypes.c_void_p:
    """Return a stream that does not synchronize with the default one."""
    stream = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
    return stream


def timed(body: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a function, and how many milliseconds it took."""
    start = time.perf_counter()
    result = body()
    return result, round((time.perf_counter() - start) * 1e3, 3)


def byte_at(pointer: ctypes.c_uint64, at: int = 0) -> int:
    """Return the byte of the device's memory there."""
    return first_byte(ctypes.c_uint64(pointer.value + at))


def time_registration() -> Any:
    """Milliseconds to register and unregister shared memory, by size, twice each, with and without pages."""
    driver()
    found: dict[str, Any] = {}
    for size in (2, 16, 64, 256, 1024):
        memory = Shared(size * MIB)
        found[f"{size} MiB"] = [(timed(memory.register), timed(memory.unregister)) for _ in range(2)]
        memory.write(1)
        found[f"{size} MiB, touched"] = [(timed(memory.register), timed(memory.unregister)) for _ in range(2)]
    empty = Shared(64 * MIB, pages=False)
    before = empty.used()
    found["64 MiB without pages"] = [timed(empty.register), before, empty.used()]
    return found


def speed_of_registered_memory() -> Any:
    """GB/s of copies to the device: pageable, registered, of cuMemHostAlloc."""
    size = 256 * MIB
    target = allocate(size)
    stream = new_stream()
    memory, own = Shared(size), ctypes.c_void_p()
    memory.write(1)
    call("cuMemHostAlloc", ctypes.byref(own), ctypes.c_size_t(size), 0)
    ctypes.memset(own, 1, size)

    def once(address: int) -> float:
        def body() -> None:
            need(copy(address, size, target, stream), "copy")
            call("cuStreamSynchronize", stream)

        return round(size / timed(body)[1] / 1e6, 2)

    found: dict[str, Any] = {"pageable": [once(memory.address) for _ in range(5)]}
    need(memory.register(), "register")
    found["registered"] = [once(memory.address) for _ in range(5)]
    found["cuMemHostAlloc"] = [once(own.value or 0) for _ in range(5)]
    found["ms to submit"] = [timed(lambda: memory.copy(target, stream)) for _ in range(3)]
    call("cuStreamSynchronize", stream)
    return found


def registered_neighbours() -> Any:
    """Results: registering overlapping, neighbouring, equal ranges; a copy across two neighbours."""
    memory, target = Shared(8 * MIB), allocate(8 * MIB)
    return {
        "first": memory.register(0, 2 * MIB),
        "same": memory.register(0, 2 * MIB),
        "overlapping": memory.register(1 * MIB, 2 * MIB),
        "neighbour": memory.register(2 * MIB, 2 * MIB),
        "copy within": memory.copy(target, size=2 * MIB),
        "copy across": memory.copy(target, first=MIB, size=2 * MIB),
        "copy out of": memory.copy(target, first=3 * MIB, size=2 * MIB),
        "wait": driver().cuCtxSynchronize(),
        "unregister inside": memory.unregister(4096),
        "unregister": memory.unregister(),
        "again": memory.unregister(),
    }


def registered_memory_after_a_hole() -> Any:
    """The byte that the device reads after the file's pages were released and made again."""
    memory, target = Shared(4 * MIB), allocate(4 * MIB)
    memory.write(1)
    need(memory.register(), "register")
    punched = _libc.fallocate(memory.file, 3, 0, 2 * MIB)
    os.posix_fallocate(memory.file, 0, 2 * MIB)
    memory.write(2)
    need(memory.copy(target), "copy")
    call("cuCtxSynchronize")
    found = {"punched": punched, "in the hole": byte_at(target), "beside": byte_at(target, 3 * MIB)}
    found["unregister"] = memory.unregister()
    found["register"] = memory.register()
    need(memory.copy(target), "copy")
    return {**found, "registered again": byte_at(target)}


def unregister_during_a_copy() -> Any:
    """Whether unregistering waits for copies that run, and what they copied."""
    size = 512 * MIB
    memory, target = Shared(size), allocate(size)
    stream = new_stream()
    memory.write(5)
    need(memory.register(), "register")
    for _ in range(8):
        need(memory.copy(target, stream), "copy")
    unregistered = timed(memory.unregister)
    pending = driver().cuStreamQuery(stream)
    waited = timed(lambda: driver().cuStreamSynchronize(stream))
    return {
        "unregister": unregistered,
        "pending": pending,
        "wait": waited,
        "last": byte_at(target, size - 1),
    }


def registered_read_only_mapping() -> Any:
    """Results: a mapping without the right to write, without and with the flag; the device's attribute."""
    driver()
    value = ctypes.c_int(-1)
    code = driver().cuDeviceGetAttribute(ctypes.byref(value), 113, 0)
    memory = Shared(2 * MIB)
    memory.write(3)
    view = Shared(2 * MIB, file=memory.file, protection=1, pages=False)
    found = {"attribute": [code, value.value], "plain": view.register()}
    if found["plain"] == 0:
        view.unregister()
    found["flag"] = view.register(flags=PORTABLE | READ_ONLY)
    target = allocate(2 * MIB)
    found["copy"] = [view.copy(target), byte_at(target)]
    return found


def unmapped_while_registered() -> Any:
    """Results after memory was unmapped that is registered: a new mapping there, and after a fork."""
    memory = Shared(4 * MIB)
    memory.write(1)
    need(memory.register(), "register")
    child = os.fork()
    if child == 0:
        os._exit(ctypes.string_at(memory.address, 1)[0])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _libc.munmap(memory.address, memory.size)
    other = Shared(4 * MIB)
    other.write(9)
    same = other.address == memory.address
    target = allocate(4 * MIB)
    register = other.register()
    copied = other.copy(target)
    return {
        "a child reads": status,
        "same address": same,
        "register": register,
        "copy": copied,
        "read": byte_at(target),
        "unregister": other.unregister(),
    }


def registered_by_two_processes() -> Any:
    """Both register one file; the pages after one of them was killed."""
    memory = Shared(64 * MIB)
    memory.write(1)

    def body(end: socket.socket) -> None:
        end.send(str(memory.register()).encode())
        end.recv(1)

    other = Child(body)
    code = other.answer()
    mine = memory.register()
    other.kill()
    target = allocate(64 * MIB)
    return {"theirs": code, "mine": mine, "copy": memory.copy(target), "read": byte_at(target)}


def events_of_a_context() -> Any:
    """An event of a whole context: whether it covers a non-blocking stream, its time, during a capture."""
    d = driver()
    found: dict[str, Any] = {"there": hasattr(d, "cuCtxRecordEvent")}
    if not found["there"]:
        return found
    context, event, stream = ctypes.c_void_p(), ctypes.c_void_p(), new_stream()
    call("cuCtxGetCurrent", ctypes.byref(context))
    call("cuEventCreate", ctypes.byref(event), 2)
    found["idle"] = [d.cuCtxRecordEvent(context, event), d.cuEventQuery(event)]
    found["us, idle"] = [timed(lambda: d.cuCtxRecordEvent(context, event))[1] * 1e3 for _ in range(5)]
    found["us, query"] = [timed(lambda: d.cuEventQuery(event))[1] * 1e3 for _ in range(3)]
    size = 256 * MIB
    memory, target = Shared(size), allocate(size)
    memory.write(1)
    need(memory.register(), "register")
    for _ in range(4):
        need(memory.copy(target, stream), "copy")
    found["us, busy"] = [timed(lambda: d.cuCtxRecordEvent(context, event))[1] * 1e3 for _ in range(5)]
    found["busy"] = [d.cuEventQuery(event), d.cuStreamQuery(stream)]
    found["default stream, busy"] = d.cuStreamQuery(None)
    waited = timed(lambda: d.cuEventSynchronize(event))
    found["wait"] = [*waited, d.cuStreamQuery(stream)]
    call("cuEventRecord", event, None)
    need(memory.copy(target, stream), "copy")
    call("cuEventRecord", event, None)
    found["an event of the default stream, busy"] = [d.cuEventQuery(event), d.cuStreamQuery(stream)]
    call("cuCtxSynchronize")
    shared = ctypes.c_void_p()
    call("cuEventCreate", ctypes.byref(shared), 2 | 4)
    found["interprocess"] = d.cuCtxRecordEvent(context, shared)
    call("cuThreadExchangeStreamCaptureMode", ctypes.byref(ctypes.c_int(2)))
    call("cuStreamBeginCapture_v2", stream, 0)
    found["capture"] = [
        d.cuCtxRecordEvent(context, event),
        d.cuStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())),
    ]
    return found


def registered_memory_in_torch() -> Any:
    """Whether torch takes registered memory for pinned, and `pin_memory` returns the tensor itself."""
    import torch

    torch.zeros(1, device="cuda")
    memory = Shared(4 * MIB)
    buffer = (ctypes.c_ubyte * memory.size).from_address(memory.address)
    tensor = torch.frombuffer(buffer, dtype=torch.uint8)
    before = tensor.is_pinned()
    need(memory.register(), "register")
    return {
        "before": before,
        "after": tensor.is_pinned(),
        "part": tensor[100:200].is_pinned(),
        "pin_memory": tensor.pin_memory().data_ptr() == tensor.data_ptr(),
        "unregister": memory.unregister(),
        "then": tensor.is_pinned(),
    }
