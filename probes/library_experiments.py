"""How other libraries use memory of shmtensor, and the reverse. Libraries that cannot run are named."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from probes.children import ask
from probes.driver import CHUNK, array_interface, call, create, driver, export, first_byte, map_chunk

if TYPE_CHECKING:
    from collections.abc import Callable

RIGHTS = {"write": 3, "read only": 1}
IMPORT = 40.0  # seconds: the first import reads a gigabyte or two


class Mapped:
    """Four floats in a chunk of virtual memory, as a plain `__cuda_array_interface__`."""

    def __init__(self, access: int) -> None:
        chunk = create()
        writable = map_chunk(chunk)
        call("cuMemsetD8Async", writable, ctypes.c_ubyte(0), ctypes.c_size_t(CHUNK), None)
        call("cuStreamSynchronize", None)
        self.pointer = writable if access == 3 else map_chunk(chunk, access=access)
        self.__cuda_array_interface__ = array_interface(self.pointer, 4, "<f4")


def _cupy(memory: Mapped) -> float:
    import cupy

    array = cupy.asarray(memory)
    array += 1
    return float(array.sum())


def _torch(memory: Mapped) -> float:
    import torch

    array = torch.as_tensor(memory, device="cuda")
    array += 1
    return float(array.sum())


def _numba(memory: Mapped) -> float:
    from numba import cuda

    array = cuda.as_cuda_array(memory)
    array[:] = 1
    return float(array.copy_to_host().sum())


def _jax(memory: Mapped) -> float:
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # otherwise JAX allocates three quarters of the GPU
    import jax.numpy as jnp

    return float((jnp.asarray(memory) + 1).sum())  # arrays of JAX are immutable


def _with_and_without_write_access(use: Callable[[Mapped], float]) -> dict[str, Any]:
    def body(access: int) -> Any:
        try:
            return use(Mapped(access))
        except (ModuleNotFoundError, AttributeError) as error:
            return f"cannot run here: {error}"  # not installed, or made for another NumPy

    return {right: ask(lambda access=access: body(access), IMPORT) for right, access in RIGHTS.items()}


def cupy_on_virtual_memory() -> dict[str, Any]:
    """CuPy over mapped virtual memory, with and without write access."""
    return _with_and_without_write_access(_cupy)


def torch_on_virtual_memory() -> dict[str, Any]:
    """Torch over mapped virtual memory, with and without write access."""
    return _with_and_without_write_access(_torch)


def numba_on_virtual_memory() -> dict[str, Any]:
    """Numba over mapped virtual memory, with and without write access."""
    return _with_and_without_write_access(_numba)


def jax_on_virtual_memory() -> dict[str, Any]:
    """JAX over mapped virtual memory, with and without write access."""
    return _with_and_without_write_access(_jax)


def export_torch_expandable_segments() -> Any:
    """Export torch's expandable segments; report their chunk size and handle types."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):  # its name up to torch 2.8, and since
        os.environ[name] = "expandable_segments:True"
    try:
        import torch
    except ModuleNotFoundError as error:
        return f"not installed: {error}"
    array = torch.full((64 << 20,), 7, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    pointer = ctypes.c_uint64(array.data_ptr())
    types, capable = ctypes.c_uint64(), ctypes.c_int()
    base, size, handle = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_uint64()
    call("cuPointerGetAttribute", ctypes.byref(types), 14, pointer)
    call("cuPointerGetAttribute", ctypes.byref(capable), 10, pointer)
    call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), pointer)
    retained = driver().cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(base.value))
    return {
        "handle types": types.value,
        "legacy": capable.value,
        "chunk": size.value,
        "retain": retained,
        "export": export(handle)[0],
        "first byte": first_byte(pointer),
    }
