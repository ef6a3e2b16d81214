"""Programs in which C++ allocations can fail: they run with the library of `scarce_heap.cpp` preloaded."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "build/cpp/libscarce-heap.so"
PLENTY = 2**64 - 1


def scarce_heap() -> dict[str, str]:
    """Return the environment of such a program."""
    assert LIBRARY.exists(), "build it: make build/cpp/.built"
    return {"LD_PRELOAD": str(LIBRARY)}


def allocations() -> Callable[[int], None]:
    """Return the function that sets how many allocations of the calling thread succeed from now on."""
    leave: Callable[[int], None] = ctypes.PyDLL(str(LIBRARY)).leave_allocations
    leave.argtypes = [ctypes.c_uint64]  # type: ignore[attr-defined]
    return leave
