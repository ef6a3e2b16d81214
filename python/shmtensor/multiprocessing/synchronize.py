"""The locks and other primitives of `multiprocessing`, in shared memory.

A killed process harms no other: a lock that it had is passed on as if it had been released, with a line in
the log. A program that was written for the standard library does not expect `acquire` to raise, and its
data may be as half changed after an exception in a ``with`` block, which releases the lock, too. A
`shmtensor.Lock` raises an error for its next owner.
"""

from __future__ import annotations

from multiprocessing import synchronize as std
from typing import TYPE_CHECKING, Any, SupportsIndex

from shmtensor._sync import barrier, condition, event, lock, semaphore

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # everything that is not replaced here


class _SemLock:
    """What programs are known to ask of the attribute `_semlock`."""

    def __init__(self, owner: Any) -> None:
        self.acquire, self.release = owner.acquire, owner.release
        self._owner = owner

    def _is_mine(self) -> bool:
        return bool(self._owner._is_mine())

    def _count(self) -> int:
        return self._owner._depth() if self._is_mine() else 0

    def _is_zero(self) -> bool:
        return self._get_value() == 0

    def _get_value(self) -> int:
        if isinstance(self._owner, semaphore.Semaphore):
            return self._owner.get_value()
        return int(not self._owner.locked())


class _WithSemLock:
    __slots__ = ()

    @property
    def _semlock(self) -> _SemLock:
        return _SemLock(self)


class Lock(_WithSemLock, lock.Lock, std.Lock):
    """See `shmtensor.Lock`; a dead owner's lock is passed on."""

    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002  # as in the standard library
        super().__init__(on_death="pass")


class RLock(_WithSemLock, lock.RLock, std.RLock):
    """See `shmtensor.RLock`; a dead owner's lock is passed on."""

    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(on_death="pass")


class Semaphore(_WithSemLock, semaphore.Semaphore, std.Semaphore):
    """See `shmtensor.Semaphore`."""

    def __init__(self, value: SupportsIndex = 1, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(value)


class BoundedSemaphore(_WithSemLock, semaphore.BoundedSemaphore, std.BoundedSemaphore):
    """See `shmtensor.BoundedSemaphore`."""

    def __init__(self, value: SupportsIndex = 1, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(value)


class Condition(condition.Condition, std.Condition):
    """See `shmtensor.Condition`."""

    def __init__(self, lock: Any = None, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__(lock)

    @staticmethod
    def _new_lock() -> RLock:
        return RLock()


class Event(event.Event, std.Event):
    """See `shmtensor.Event`."""

    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002
        super().__init__()


class Barrier(barrier.Barrier, std.Barrier):
    """See `shmtensor.Barrier`."""

    def __init__(
        self,
        parties: SupportsIndex,
        action: Callable[[], object] | None = None,
        timeout: float | None = None,
        *,
        ctx: Any = None,  # noqa: ARG002
    ) -> None:
        super().__init__(parties, action, timeout)
