"""Long calls of processes that may be killed, beside delays of processes that only sleep.

On a busy machine a call is long also because its process, or the one that it waits for, gets no processor.
A process that only sleeps is late at the same time, which distinguishes the two.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator

import numpy as np

SHORT = 0.002  # seconds; calls and delays below are not recorded
RECORD = struct.Struct("=qdd")
DELAY = -1  # the kind of a record: not a call, but a sleep that ended late


class LongCalls:
    """Records of all processes that inherit it, in an anonymous file that outlives them."""

    def __init__(self) -> None:
        self.file = os.memfd_create("long-calls")
        fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)

    def note(self, kind: int, began: float) -> None:
        """Record a call of this kind that ends now, if it was long."""
        if (now := time.monotonic()) - began > SHORT:
            os.write(self.file, RECORD.pack(kind, began, now))

    def only_sleep(self, processor: int, ended: Callable[[], bool]) -> None:
        """Record how late this processor runs a process that sleeps."""
        os.sched_setaffinity(0, {processor})
        while not ended():
            due = time.monotonic() + 0.001
            time.sleep(0.001)
            self.note(DELAY, due)

    def longest(self, kind: int) -> float:
        """Return the duration of the longest call of this kind in seconds, or 0 if none was long."""
        return max((ended - began for began, ended in self._of(kind)), default=0.0)

    def longest_unexplained(self, kind: int) -> float:
        """Return the same without the time in which a process that only sleeps was late."""
        late = np.array(merged(sorted(self._of(DELAY)))).reshape(-1, 2)
        longest = 0.0
        for began, ended in self._of(kind):
            overlap = np.minimum(late[:, 1], ended) - np.maximum(late[:, 0], began)
            longest = max(longest, ended - began - float(overlap.clip(min=0).sum()))
        return longest

    def close(self) -> None:
        os.close(self.file)

    def _of(self, kind: int) -> Iterator[tuple[float, float]]:
        size = os.fstat(self.file).st_size
        for found, began, ended in RECORD.iter_unpack(os.pread(self.file, size - size % RECORD.size, 0)):
            if found == kind:
                yield began, ended


def merged(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the union of sorted intervals."""
    union: list[tuple[float, float]] = []
    for began, ended in intervals:
        if union and began <= union[-1][1]:
            union[-1] = union[-1][0], max(union[-1][1], ended)
        else:
            union.append((began, ended))
    return union
