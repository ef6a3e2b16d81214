"""CuPy: arrays of its default pool, and its handles."""

from __future__ import annotations

import contextlib
from typing import Any


class Cupy:
    module = "cupy"
    views = ("cai", "dlpack")
    outlives = False
    frees = True

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.runtime = cupy.cuda.runtime

    def make(self, values: Any) -> Any:
        return self.cupy.asarray(values)

    def free_idle(self) -> None:
        """Free what the library keeps for its next arrays."""
        self.cupy.get_default_memory_pool().free_all_blocks()

    def view(self, tensor: Any, how: str) -> Any:
        return self.cupy.from_dlpack(tensor) if how == "dlpack" else self.cupy.asarray(tensor)

    def address(self, array: Any) -> int:
        return array.data.ptr

    def read(self, array: Any) -> Any:
        return array.get()

    def write(self, array: Any, values: Any) -> None:
        array.set(values)

    def export(self, array: Any) -> Any:
        return self.runtime.ipcGetMemHandle(array.data.ptr)

    @contextlib.contextmanager
    def opened(self, exported: Any, size: int) -> Any:
        pointer = self.runtime.ipcOpenMemHandle(exported)
        memory = self.cupy.cuda.UnownedMemory(pointer, size, None)
        yield self.cupy.ndarray((size,), "u1", self.cupy.cuda.MemoryPointer(memory, 0))
        self.runtime.ipcCloseMemHandle(pointer)

    def stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def finish(self, stream: Any) -> None:
        stream.synchronize()

    def export_event(self) -> Any:
        event = self.cupy.cuda.Event(block=False, disable_timing=True, interprocess=True)
        event.record()
        return event, self.runtime.ipcGetEventHandle(event.ptr)

    def wait_for(self, exported: Any) -> None:
        event = self.runtime.ipcOpenEventHandle(exported)
        self.runtime.eventSynchronize(event)
        self.runtime.eventDestroy(event)
