"""numba-cuda: its arrays, and its handles of them."""

from __future__ import annotations

import contextlib
from typing import Any


class Numba:
    """numba-cuda: its arrays, and its handles of them."""

    module = "numba_cuda"
    views = ("cai",)
    outlives = False
    frees = True

    def __init__(self) -> None:
        from numba import config, cuda

        config.CUDA_DEALLOCS_COUNT = 0  # it frees an array in the thread that releases it
        self.cuda = cuda

    def make(self, values: Any) -> Any:
        return self.cuda.to_device(values)

    def view(self, tensor: Any, how: str) -> Any:
        return self.cuda.as_cuda_array(tensor)

    def address(self, array: Any) -> int:
        return array.__cuda_array_interface__["data"][0]

    def read(self, array: Any) -> Any:
        return array.copy_to_host()

    def write(self, array: Any, values: Any) -> None:
        array.copy_to_device(values)

    def export(self, array: Any) -> Any:
        return array.get_ipc_handle()

    @contextlib.contextmanager
    def opened(self, exported: Any, size: int) -> Any:
        with exported as array:
            yield array

    def stream(self) -> Any:
        self.kept = self.cuda.stream()
        return int(getattr(self.kept.handle, "value", self.kept.handle))

    def finish(self, stream: Any) -> None:
        self.kept.synchronize()
