"""Blocking signals for a time, and ending the parent's part in a forked child's signals."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["begin_child", "blocked"]


@contextmanager
def blocked(*numbers: int) -> Iterator[set[int]]:
    """Block signals in this thread, and in a program that it starts meanwhile; yield the mask before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # may run a handler that raises
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_child(mask: set[int]) -> None:
    """Unblock signals in a child that was forked with all of them blocked, when they are the child's alone.

    Parameters
    ----------
    mask
        The parent's mask before.
    """
    _leave_event_loop()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _leave_event_loop() -> None:
    """Handle signals in this forked child as a new program does, if an event loop handles the parent's.

    Such a loop has set a descriptor to which the interpreter writes each signal. The child has it, too: the
    loop would receive the child's signals as the parent's. What handlers in Python start, only the loop
    would complete. Without a loop, a child inherits them, as with the standard library.
    """
    if signal.set_wakeup_fd(-1) < 0:
        return
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
