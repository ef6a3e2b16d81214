"""Semaphore and BoundedSemaphore: a killed process gives its units back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import shmtensor._core as _core
from shmtensor._by_handle import SentByHandle
from shmtensor._sync.departure import disown_at_exit
from shmtensor._tasks import wait_in_thread
from shmtensor._values import check_integer

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST = 2**31 - 1  # as in the standard library


class Semaphore(SentByHandle, _core.SemaphoreBase):
    """A semaphore in shared memory, with the methods of `multiprocessing.Semaphore`.

    It travels as a `Lock` does. A process that acquires a unit owns it until it releases one, or until a
    process that owns none does. If it is killed, its units come back within milliseconds. If it exits, they
    stay taken: another process may have been meant to release them. Units above the initial value, as those
    of a semaphore that begins with 0, have no owner.

    Parameters
    ----------
    value
        The number of units, at least 0.
    """

    __slots__ = ()
    _bounded = False

    def __init__(self, value: SupportsIndex = 1) -> None:
        units = check_integer("value", value, 0, _MOST)
        self._open(_core.new_semaphore_storage(units, self._bounded))

    def _open(self, storage: Any) -> None:
        super()._open(storage)
        disown_at_exit(self)

    def locked(self) -> bool:
        """Return True if there is no unit."""
        return self.get_value() == 0

    async def aacquire(self) -> Literal[True]:
        """Take a unit; the event loop runs other tasks until there is one.

        A task that is cancelled, or reaches a timeout, has none. A thread waits for it.
        """
        if not self.acquire(block=False):
            await wait_in_thread(lambda seconds: self.acquire(timeout=seconds), self.release)
        return True

    async def __aenter__(self) -> Self:
        await self.aacquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: value {self.get_value()}>"


class BoundedSemaphore(Semaphore):
    """As `Semaphore`; `release` raises ValueError if the value would be above the initial one."""

    __slots__ = ()
    _bounded = True
