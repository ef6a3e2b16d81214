"""Blocking signals for a time, and ending the parent's part in a forked child's signals."""

from __future__ import annotations

import signal
import sys

# That of `signal` makes enums of the numbers. With all signals blocked this takes 0.6 ms after a fork.
from _signal import pthread_sigmask  # type: ignore[import-not-found]
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["ALL_SIGNALS", "begin_child", "blocked"]

ALL_SIGNALS = tuple(signal.valid_signals())  # once: the call takes 170 us
_LOOPS = frozenset({"asyncio.unix_events", "uvloop.loop"})  # modules of event loops' handlers
_RUNNERS = "asyncio.runners"


@contextmanager
def blocked(*numbers: int) -> Iterator[set[int]]:
    """Block signals in this thread, and in a program that it starts meanwhile; yield the mask before."""
    before = pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        pthread_sigmask(signal.SIG_BLOCK, numbers)  # may run a handler that raises
        yield before
    finally:
        pthread_sigmask(signal.SIG_SETMASK, before)


def begin_child(mask: set[int]) -> None:
    """Unblock signals in a child that was forked with all of them blocked, when they are the child's alone.

    Parameters
    ----------
    mask
        The parent's mask before.
    """
    _leave_event_loop()
    pthread_sigmask(signal.SIG_SETMASK, mask)


def _leave_event_loop() -> None:
    """Handle signals in this forked child as a new program does, if an event loop handles the parent's.

    Such a loop has set a descriptor to which the interpreter writes each signal. The child has it, too: the
    loop would receive the child's signals as the parent's. What handlers in Python start, only the loop
    would complete. Without a loop, a child inherits them, as with the standard library.

    Since Python 3.12 asyncio has reset the descriptor in the child by now; its handlers, which do nothing
    themselves, are how this function recognizes it. `asyncio.run` alone handles SIGINT, without a descriptor.
    """
    has_loop = signal.set_wakeup_fd(-1) >= 0
    if not has_loop and sys.modules.keys().isdisjoint({*_LOOPS, _RUNNERS}):
        return
    handlers = {number: signal.getsignal(number) for number in ALL_SIGNALS}
    modules = {number: _module(handler) for number, handler in handlers.items() if callable(handler)}
    has_loop = has_loop or not _LOOPS.isdisjoint(modules.values())
    for number, module in modules.items():
        if has_loop or module == _RUNNERS:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)


def _module(handler: Any) -> str | None:
    return getattr(getattr(handler, "func", handler), "__module__", None)  # a partial object has a `func`
