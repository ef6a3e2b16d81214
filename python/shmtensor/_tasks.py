"""Waits in a thread for what a task of an event loop waits for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_SLICE = 0.05  # seconds from the cancellation of the task to the end of its thread


async def wait_in_thread(attempt: Callable[[float], bool], undo: Callable[[], object]) -> None:
    """Return when a call of `attempt`, which waits for the given seconds, has returned True.

    If the task is cancelled after that, `undo` is called.
    """
    import asyncio  # takes as long as all of this package

    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def deliver(error: BaseException | None) -> None:
        if future.cancelled():
            leave(error)
        elif error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def leave(error: BaseException | None) -> None:
        if error is None:
            undo()

    def work() -> None:
        error = None
        try:
            while not future.cancelled():
                if attempt(_SLICE):
                    break
            else:
                return
        except BaseException as raised:
            error = raised
        if future.cancelled():  # the loop may not run any more
            leave(error)
            return
        try:
            loop.call_soon_threadsafe(deliver, error)
        except RuntimeError:  # the loop was closed
            leave(error)

    threading.Thread(target=work, name="shmtensor-wait", daemon=True).start()
    try:
        await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled():
            leave(future.exception())
        raise
