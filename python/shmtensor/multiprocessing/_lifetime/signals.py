"""Blocking a signal for a time."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["blocked"]


@contextmanager
def blocked(number: signal.Signals) -> Iterator[None]:
    """Block a signal in this thread, and in a program that it starts meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})  # may run a handler that raises
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
