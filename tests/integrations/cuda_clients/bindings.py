"""cuda-bindings: the functions of the driver."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from tests.cuda import device


class Bindings:
    """cuda-bindings: the functions of the driver."""

    module = "cuda.bindings"
    views = ("cai",)  # how the library takes over a tensor
    outlives = False  # whether its memory does not end with the process
    frees = True  # whether its memory is freed with the last array

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self.call(driver.cuInit, 0)
        self.call(driver.cuCtxPushCurrent, self.call(driver.cuDevicePrimaryCtxRetain, 0))

    def call(self, function: Any, *arguments: Any) -> Any:
        code, *results = function(*arguments)
        assert code == self.driver.CUresult.CUDA_SUCCESS, (function.__name__, code)
        return results[0] if results else None

    def make(self, values: Any) -> Any:
        return device.Array(values)

    def view(self, tensor: Any, how: str) -> Any:
        return device.Shown(tensor)

    def address(self, array: Any) -> int:
        return array.__cuda_array_interface__["data"][0]

    def read(self, array: Any) -> Any:
        values = np.empty(array.__cuda_array_interface__["shape"], "u1")
        self.call(self.driver.cuMemcpyDtoH, values.ctypes.data, self.address(array), values.nbytes)
        return values

    def write(self, array: Any, values: Any) -> None:
        self.call(self.driver.cuMemcpyHtoD, self.address(array), values.ctypes.data, values.nbytes)

    def export(self, array: Any) -> Any:
        """Return what another process opens, by the library's own means."""
        return bytes(self.call(self.driver.cuIpcGetMemHandle, self.address(array)).reserved)

    @contextlib.contextmanager
    def opened(self, exported: Any, size: int) -> Any:
        handle = self.driver.CUipcMemHandle()
        handle.reserved = exported
        pointer = self.call(self.driver.cuIpcOpenMemHandle, handle, 1)
        yield At(int(pointer), size)
        self.call(self.driver.cuIpcCloseMemHandle, pointer)

    def stream(self) -> Any:
        return int(self.call(self.driver.cuStreamCreate, 1))

    def finish(self, stream: Any) -> None:
        self.call(self.driver.cuStreamSynchronize, stream)

    def export_event(self) -> Any:
        """Return a recorded event, and what another process opens."""
        event = self.call(self.driver.cuEventCreate, 6)
        self.call(self.driver.cuEventRecord, event, 0)
        return event, bytes(self.call(self.driver.cuIpcGetEventHandle, event).reserved)

    def wait_for(self, exported: Any) -> None:
        handle = self.driver.CUipcEventHandle()
        handle.reserved = exported
        event = self.call(self.driver.cuIpcOpenEventHandle, handle)
        self.call(self.driver.cuEventSynchronize, event)
        self.call(self.driver.cuEventDestroy, event)


class At:
    """Bytes at an address that another object frees."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "strides": None,
            "stream": 1,
        }
