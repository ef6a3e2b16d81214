"""The progress of long work, printed to standard error."""

from __future__ import annotations

import sys
import time

_STEP = 4096


class ProgressLine:
    """A line that is overwritten on a terminal, else a new one every few seconds.

    Parameters
    ----------
    shown
        Whether anything is printed.
    what
        Of what the progress is.
    form
        How the numbers of `at` and `end` are printed.

    Attributes
    ----------
    step
        Number of items after which a build calls `at`; 0: never.
    """

    def __init__(self, shown: bool, what: str, form: str) -> None:
        shown = shown and sys.stderr is not None  # None: the program began with that descriptor closed
        self.step = _STEP if shown else 0
        self._what, self._form = what, form
        self._terminal = shown and sys.stderr.isatty()
        self._every = 0.1 if self._terminal else 5.0
        self._begin = time.monotonic()
        self._next = self._begin + self._every

    def at(self, *numbers: object) -> None:
        """Report the progress if enough time has passed."""
        now = time.monotonic()
        if self.step and now >= self._next:
            self._next = now + self._every
            self._print(numbers, "\r" if self._terminal else "\n")

    def end(self, *numbers: object) -> None:
        """Report the end."""
        if self.step:
            self._print(numbers, "\n")

    def _print(self, numbers: tuple[object, ...], last: str) -> None:
        seconds = time.monotonic() - self._begin
        line = f"{self._what}: {self._form.format(*numbers)}, {seconds:.1f} s"
        sys.stderr.write(f"{line}\033[K{last}" if self._terminal else f"{line}\n")
        sys.stderr.flush()
