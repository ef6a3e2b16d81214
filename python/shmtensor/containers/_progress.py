"""What a long build says meanwhile, on standard error."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]

_STEP = 4096


class Progress:
    """A line on a terminal that is written over, or one line every few seconds elsewhere.

    Attributes
    ----------
    step
        After how many items `at` is to be called; 0: never.
    """

    def __init__(self, shown: bool, what: str) -> None:
        self.step = _STEP if shown else 0
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._every = 0.1 if self._terminal else 5.0
        self._begin = time.monotonic()
        self._next = self._begin + self._every

    def at(self, items: int, nbytes: int) -> None:
        """So much is written."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            self._say(items, nbytes, "\r" if self._terminal else "\n")

    def end(self, items: int, nbytes: int) -> None:
        """All is written."""
        if self.step:
            self._say(items, nbytes, "\n")

    def _say(self, items: int, nbytes: int, last: str) -> None:
        seconds = time.monotonic() - self._begin
        line = f"{self._what}: {items:,} items, {nbytes / 2**20:,.1f} MiB, {seconds:.1f} s"
        sys.stderr.write(f"{line}\033[K{last}" if self._terminal else f"{line}\n")
        sys.stderr.flush()
