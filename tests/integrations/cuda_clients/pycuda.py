"""PyCUDA: arrays of its default allocator, and its handles. It keeps a stack of contexts in each thread."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import Any


class Pycuda:
    module = "pycuda"
    views = ("cai",)
    outlives = False
    frees = True

    def __init__(self) -> None:
        sys.setdlopenflags(os.RTLD_LAZY)  # the simulator lacks functions that PyCUDA's module could call
        import pycuda.driver

        self.driver = pycuda.driver
        self.driver.init()
        context = self.driver.Device(0).retain_primary_context()
        context.push()
        atexit.register(context.detach)  # PyCUDA aborts a process that ends with a current context
        import pycuda.gpuarray

        self.arrays = pycuda.gpuarray

    def make(self, values: Any) -> Any:
        return self.arrays.to_gpu(values)

    def view(self, tensor: Any, how: str) -> Any:
        pointer, _ = tensor.__cuda_array_interface__["data"]
        return self.arrays.GPUArray(tensor.shape, tensor.dtype, base=tensor, gpudata=pointer)

    def address(self, array: Any) -> int:
        return array.__cuda_array_interface__["data"][0]

    def read(self, array: Any) -> Any:
        return array.get()

    def write(self, array: Any, values: Any) -> None:
        array.set(values)

    def export(self, array: Any) -> Any:
        return bytes(self.driver.mem_get_ipc_handle(array.gpudata))

    @contextlib.contextmanager
    def opened(self, exported: Any, size: int) -> Any:
        handle = self.driver.IPCMemoryHandle(bytearray(exported))
        yield self.arrays.GPUArray((size,), "u1", base=handle, gpudata=int(handle))
        handle.close()

    def stream(self) -> Any:
        self.kept = self.driver.Stream()
        return self.kept.handle

    def finish(self, stream: Any) -> None:
        self.kept.synchronize()
