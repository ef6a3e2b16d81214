"""Driver calls that tests make without shmtensor, as another library would.

They are the same on the simulator and on a GPU; `simulated` is true on the simulator, which reports more.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PATH = os.environ.get("SHMTENSOR_LIBCUDA", "libcuda.so.1")
simulated = "SHMTENSOR_SIM_DIR" in os.environ

_library: Any = None


def library() -> Any:
    """Return the driver, with device 0's context current in this thread."""
    global _library
    if _library is None:
        _library = ctypes.CDLL(PATH)
        if simulated:
            _library.sim_live_bytes.restype = ctypes.c_uint64
            _library.sim_calls.restype = ctypes.c_uint64
            _library.sim_all_calls.restype = ctypes.c_uint64
            _library.sim_log.restype = ctypes.c_char_p
            _library.sim_allocate.restype = ctypes.c_uint64
        check(_library.cuInit(0))
    current = ctypes.c_void_p()
    check(_library.cuCtxGetCurrent(ctypes.byref(current)))
    if not current.value:
        context = ctypes.c_void_p()
        check(_library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(_library.cuCtxPushCurrent_v2(context))
    return _library


def loaded() -> Any:
    """Return the driver, without making a context current."""
    return _library


def check(code: int) -> None:
    assert code == 0, f"the driver answered {code}"


class Array:
    """An array of another library, in memory of cuMemAlloc."""

    alive = 0

    def __init__(
        self, values: Any, *, kind: str | None = None, stream: int | None = 1, margin: int = 0
    ) -> None:
        values = np.ascontiguousarray(values)
        driver = library()
        pointer = ctypes.c_uint64()
        if kind is None:
            check(driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(values.nbytes + margin)))
        else:
            pointer.value = driver.sim_allocate(kind.encode(), ctypes.c_size_t(values.nbytes + margin))
        self.base = pointer.value
        self.pointer = self.base + margin
        self.values = values
        self.stream = stream
        self.owner = os.getpid() if kind is None else None
        write(self.pointer, values.tobytes())
        Array.alive += 1

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.values.shape,
            "typestr": self.values.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": self.stream,
        }

    def read(self) -> Any:
        return np.frombuffer(read(self.pointer, self.values.nbytes), self.values.dtype).reshape(
            self.values.shape
        )

    def __del__(self) -> None:
        Array.alive -= 1
        if self.owner == os.getpid():  # a forked child cannot use the driver
            library().cuMemFree_v2(ctypes.c_uint64(self.base))


class Shown:
    """An array of another library over a tensor's memory."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": tensor.shape,
            "typestr": tensor.dtype.str,
            "data": (tensor.data_ptr(), False),
            "strides": tensor.strides,
            "stream": 1,
        }


def write(pointer: int, content: bytes) -> None:
    driver = library()
    check(driver.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(pointer), content, ctypes.c_size_t(len(content)), None))
    check(driver.cuStreamSynchronize(None))


def read(pointer: int, size: int) -> bytes:
    driver = library()
    content = ctypes.create_string_buffer(size)
    check(driver.cuMemcpyDtoHAsync_v2(content, ctypes.c_uint64(pointer), ctypes.c_size_t(size), None))
    check(driver.cuStreamSynchronize(None))
    return content.raw


def read_interface(tensor: Any) -> Any:
    """Return the elements that `__cuda_array_interface__` describes; C order only."""
    interface = tensor.__cuda_array_interface__
    assert interface["version"] == 3
    assert interface["strides"] is None
    dtype = np.dtype(interface["typestr"])
    size = int(np.prod(interface["shape"])) * dtype.itemsize
    return np.frombuffer(read(interface["data"][0], size), dtype).reshape(interface["shape"])


def used_bytes() -> int:
    """Return the bytes of the device that are in use by any process."""
    driver = library()
    if simulated:
        return driver.sim_live_bytes()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return total.value - free.value


def calls(name: str) -> int:
    """Return how often this process has called a function of the driver (simulator only)."""
    if _library is None:
        library()
    return _library.sim_calls(name.encode())


def all_calls() -> int:
    """Return the number of driver calls of this process, this one excluded (simulator only)."""
    if _library is None:
        library()
    return _library.sim_all_calls()


class Latch:
    """Blocks the default stream of the current context until any process opens the latch of this name."""

    def __init__(self, name: str = "latch") -> None:
        self.path = Path(os.environ["LATCHES"], name)

    def close(self) -> Latch:
        """Block the stream; on a GPU for 20 s at most."""
        self.path.unlink(missing_ok=True)
        driver, default_stream = library(), ctypes.c_void_p(1)
        if simulated:
            driver.sim_latch(default_stream, str(self.path).encode())
            return self
        pointer, size = ctypes.c_uint64(), ctypes.c_size_t(4)
        check(driver.cuMemAlloc_v2(ctypes.byref(pointer), size))
        # The first one loads a kernel, for which it waits.
        check(driver.cuMemsetD8Async(pointer, 0, size, None))
        check(driver.cuMemFree_v2(pointer))
        word, address, portable, mapped = ctypes.c_void_p(), ctypes.c_uint64(), 1, 2
        check(driver.cuMemHostAlloc(ctypes.byref(word), size, portable | mapped))
        check(driver.cuMemHostGetDevicePointer_v2(ctypes.byref(address), word, 0))
        assert word.value
        flag = ctypes.c_uint32.from_address(word.value)
        flag.value = 0
        at_least = 0
        check(driver.cuStreamWaitValue32_v2(default_stream, address, 1, at_least))
        threading.Thread(target=self._follow, args=(flag,), daemon=True).start()
        return self

    def _follow(self, flag: ctypes.c_uint32) -> None:
        end = time.monotonic() + 20
        while not self.path.exists() and time.monotonic() < end:
            time.sleep(0.001)
        flag.value = 1

    def open(self) -> None:
        self.path.touch()

    def is_open(self) -> bool:
        return self.path.exists()


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited {timeout} s for: {what}"
        time.sleep(0.002)
