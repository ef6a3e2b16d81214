"""The effective capabilities of this thread."""

from __future__ import annotations

import ctypes

_libc = ctypes.CDLL(None, use_errno=True)
_VERSION = 0x20080522


class Capability:
    """One right of the superuser, which a thread that has it can drop and take back."""

    def __init__(self, number: int) -> None:
        self.word, self.mask = number // 32, 1 << number % 32
        self.header = (ctypes.c_uint32 * 2)(_VERSION, 0)
        self.data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits

    def drop(self) -> bool:
        """Return False if the thread does not have it."""
        if _libc.capget(self.header, self.data) != 0 or not self.data[3 * self.word] & self.mask:
            return False
        self.data[3 * self.word] &= ~self.mask
        return _libc.capset(self.header, self.data) == 0

    def take_back(self) -> None:
        self.data[3 * self.word] |= self.mask
        _libc.capset(self.header, self.data)
