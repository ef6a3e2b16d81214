"""Waits in an event loop until a descriptor is readable, for any number of tasks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    Waiters = dict[int, deque[Future[None]]]

# Of each loop, by descriptor. A loop has one reader for a descriptor.
_waiters: WeakKeyDictionary[AbstractEventLoop, Waiters] = WeakKeyDictionary()

_TURN = 0.005  # seconds


class _Turn(threading.local):
    end = 0.0


_turn = _Turn()


async def give_way() -> None:
    """Let the other tasks run, if this has not done so for some milliseconds.

    A task that finds an item each time never waits, and neither timers nor cancellations would run.
    """
    if time.monotonic() > _turn.end:
        await asyncio.sleep(0)
        _turn.end = time.monotonic() + _TURN


async def wait_until_readable(descriptor: int) -> None:
    """Return when the descriptor may be readable; of several tasks, one each time it is."""
    loop = asyncio.get_running_loop()
    of_loop = _waiters.setdefault(loop, {})
    waiters = of_loop.get(descriptor)
    if waiters is None:
        waiters = of_loop[descriptor] = deque()
        loop.add_reader(descriptor, _wake_one, waiters)
    future = loop.create_future()
    waiters.append(future)
    try:
        await future
    finally:
        # A task that was woken and then cancelled took nothing: the descriptor is still readable.
        if future in waiters:
            waiters.remove(future)
        if not waiters and of_loop.get(descriptor) is waiters:
            del of_loop[descriptor]
            loop.remove_reader(descriptor)


def _wake_one(waiters: deque[Future[None]]) -> None:
    while waiters:
        future = waiters.popleft()
        if not future.done():
            future.set_result(None)
            return
