"""The size from which on the buffers of a message are in shared memory."""

from __future__ import annotations

import shmtensor._core as _core

_threshold: int | None = 64 * 1024

SMALL = 16 * 1024
"""Bytes of an array that NumPy's reduction for protocol 4 serves best.

That for protocol 5, the default of the standard library's queues and pipes from Python 3.14 on, copies the
elements once less.
"""

_NEVER = 2**63 - 1


def buffer_threshold() -> int | None:
    """Return the number of bytes from which on the buffers of a message are in shared memory."""
    return _threshold


def is_large(nbytes: int) -> bool:
    """Return True if a buffer of so many bytes is sent in shared memory."""
    return _threshold is not None and nbytes >= max(_threshold, 1)


def set_buffer_threshold(nbytes: int | None) -> None:
    """Set that number; None for no buffer."""
    global _threshold
    _threshold = nbytes
    _core.set_large_array(*((SMALL, _NEVER) if nbytes is None else (min(nbytes, SMALL), max(nbytes, 1))))


set_buffer_threshold(_threshold)
