"""What other libraries do with memory of ours, and we with theirs. Those that are not installed are named."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from bench.gpu.driver import CHUNK, ask, create, driver, export, first_byte, map_chunk, need

if TYPE_CHECKING:
    from collections.abc import Callable


class Mapped:
    """Four floats in a chunk of virtual memory, as an array of nobody's."""

    def __init__(self, access: int) -> None:
        chunk = create()
        writable = map_chunk(chunk)
        need(driver().cuMemsetD8Async(writable, ctypes.c_ubyte(0), ctypes.c_size_t(CHUNK), None))
        need(driver().cuStreamSynchronize(None))
        self.pointer = writable if access == 3 else map_chunk(chunk, access=access)
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (4,),
            "typestr": "<f4",
            "data": (self.pointer.value, False),
            "strides": None,
            "stream": 1,
        }


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
    import jax.numpy as jnp

    return float((jnp.asarray(memory) + 1).sum())  # arrays of JAX are not written to


LIBRARIES: dict[str, Callable[[Mapped], float]] = {
    "cupy": _cupy,
    "torch": _torch,
    "numba": _numba,
    "jax": _jax,
}


def question_12() -> dict[str, Any]:
    """CuPy, torch, numba, JAX over mapped virtual memory: reading and writing; the same without the right."""
    found: dict[str, Any] = {}
    for name, use in LIBRARIES.items():
        for right, access in (("write", 3), ("read only", 1)):

            def body(use: Any = use, access: int = access) -> Any:
                try:
                    return use(Mapped(access))
                except ModuleNotFoundError:
                    return "not installed"
                except Exception as error:
                    return f"{type(error).__name__}: {error}"[:200]

            found[f"{name}, {right}"] = ask(body)
    return found


def question_13() -> dict[str, Any]:
    """Torch's expandable segments: may they be exported, in chunks of what size?"""

    def body() -> Any:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        try:
            import torch
        except ModuleNotFoundError:
            return "torch is not installed"
        array = torch.full((64 << 20,), 7, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        pointer = ctypes.c_uint64(array.data_ptr())
        types, capable = ctypes.c_uint64(), ctypes.c_int()
        driver()
        need(driver().cuPointerGetAttribute(ctypes.byref(types), 14, pointer))
        need(driver().cuPointerGetAttribute(ctypes.byref(capable), 10, pointer))
        base, size, handle = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_uint64()
        need(driver().cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), pointer))
        retained = driver().cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(base.value))
        return {
            "handle types": types.value,
            "legacy": capable.value,
            "chunk": size.value,
            "retain": retained,
            "export": export(handle)[0],
            "first byte": first_byte(pointer),
        }

    return ask(body)
