"""Event: processes wait until another one sets it."""

from __future__ import annotations

from typing import Literal

import shmtensor._core as _core
from shmtensor._by_handle import SentByHandle
from shmtensor._tasks import wait_in_thread


class Event(SentByHandle, _core.EventBase):
    """An event in shared memory, with the methods of `multiprocessing.Event`.

    It travels as a `Lock` does. A killed process delays no other.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_core.new_event_storage())

    async def await_(self) -> Literal[True]:
        """Wait until the event is set; the event loop runs other tasks. A thread waits for it."""
        if not self.is_set():
            await wait_in_thread(self.wait, lambda: None)
        return True

    def __repr__(self) -> str:
        state = "set" if self.is_set() else "unset"
        return f"<{type(self).__name__} at {id(self):#x} {state}>"
