"""Blocking signals for a time, and ending the parent's part in a forked child's signals."""

from __future__ import annotations

import signal

# Those of `signal` make enums of the numbers. For all signals this takes 0.2 ms, and 0.6 after a fork.
from _signal import getsignal, pthread_sigmask, valid_signals  # type: ignore[import-not-found]
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["begin_child", "blocked", "valid_signals"]

_LOOPS = frozenset({"asyncio.unix_events", "uvloop.loop"})  # modules of event loops' handlers


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
    handlers = {number: getsignal(number) for number in valid_signals()}
    modules = {number: _module(handler) for number, handler in handlers.items() if callable(handler)}
    has_loop = signal.set_wakeup_fd(-1) >= 0 or not _LOOPS.isdisjoint(modules.values())
    for number, module in modules.items():
        if has_loop or module == "asyncio.runners":
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)


def _module(handler: Any) -> str | None:
    return getattr(getattr(handler, "func", handler), "__module__", None)  # a partial object has a `func`
