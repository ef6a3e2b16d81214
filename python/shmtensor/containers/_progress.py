"""Progress of a long build, printed to standard error."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]

_STEP = 4096


class Progress:
    """A progress line: overwritten on a terminal, else a new line every few seconds.

    Attributes
    ----------
    step
        Number of items after which `at` is called; 0: never.
    """

    def __init__(self, shown: bool, what: str) -> None:
        shown = shown and sys.stderr is not None  # None: the program began with that descriptor closed
        self.step = _STEP if shown else 0
        self._what = what
        self._terminal = shown and sys.stderr.isatty()
        self._every = 0.1 if self._terminal else 5.0
        self._begin = time.monotonic()
        self._next = self._begin + self._every

    def at(self, items: int, nbytes: int) -> None:
        """Report the progress if enough time has passed."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            self._print(items, nbytes, "\r" if self._terminal else "\n")

    def end(self, items: int, nbytes: int) -> None:
        """Report the end of the build."""
        if self.step:
            self._print(items, nbytes, "\n")

    def _print(self, items: int, nbytes: int, last: str) -> None:
        seconds = time.monotonic() - self._begin
        line = f"{self._what}: {items:,} items, {nbytes / 2**20:,.1f} MiB, {seconds:.1f} s"
        sys.stderr.write(f"{line}\033[K{last}" if self._terminal else f"{line}\n")
        sys.stderr.flush()
