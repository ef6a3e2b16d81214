"""The live screen of `shmtensor top`: drawn by rich, ended by q or Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from shmtensor.cli._output import Table, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Self


class Screen:
    """Shows one frame after another; the terminal is as before when it is left, also by an exception."""

    def __enter__(self) -> Self:
        self._keyboard = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        # It starts no thread, and leaves standard output and error as they are.
        self._live = Live(
            console=Console(), screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        with ExitStack() as stack:
            stack.enter_context(_ended_by_sigterm())
            if self._keyboard is not None:
                stack.enter_context(_without_line_editing(self._keyboard))
            stack.enter_context(self._live)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def show(self, parts: Iterable[str | Table]) -> None:
        """Draw a frame; what does not fit on the screen is cut off."""
        self._live.update(Group(*map(_drawn, parts)), refresh=True)

    def wait(self, seconds: float) -> bool:
        """Wait for the next frame; return False if the user has pressed q."""
        if self._keyboard is None:
            time.sleep(seconds)
            return True
        deadline = time.monotonic() + seconds
        while True:
            rest = max(deadline - time.monotonic(), 0)
            ready, _, _ = select.select([self._keyboard], [], [], rest)
            if not ready:
                return True
            keys = os.read(self._keyboard, 100)
            if not keys or b"q" in keys.lower():  # none: the terminal has gone
                return False


def _drawn(part: str | Table) -> Any:
    if isinstance(part, str):
        return Text(plain(part), style="bold")
    if not part.rows:
        return Text()
    table = RichTable(box=None, pad_edge=False, header_style="dim")
    for title in part.head[:-1]:
        table.add_column(title, no_wrap=True)
    table.add_column(part.head[-1])  # rich shortens this one on a narrow screen
    for row in part.cells():  # a Text is not markup
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    return table


@contextmanager
def _without_line_editing(keyboard: int) -> Iterator[None]:
    """Read single keys that are not printed; Ctrl-C still interrupts, Ctrl-Z does not stop."""
    before = termios.tcgetattr(keyboard)
    changed = termios.tcgetattr(keyboard)
    changed[3] &= ~(termios.ICANON | termios.ECHO)
    changed[6][termios.VSUSP] = b"\0"
    termios.tcsetattr(keyboard, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    def end(number: int, _: object) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
