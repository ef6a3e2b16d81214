"""Condition: threads wait until another one notifies them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import shmtensor._core as _core
from shmtensor._by_handle import SentByHandle
from shmtensor._sync.lock import Lock, RLock

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")
_ALL = 2**32 - 1


class Condition(SentByHandle, _core.ConditionBase):
    """A condition in shared memory, with the methods of `multiprocessing.Condition`.

    It travels as a `Lock` does, with its lock. A process that is killed while it waits delays no other, and a
    notification that it got goes to another one. `wait` raises `OwnerDied` as `Lock.acquire` does; the caller
    has the lock then.

    Parameters
    ----------
    lock
        A `Lock` or `RLock`; None: a new `RLock`.
    """

    __slots__ = ("_lock", "acquire", "release")

    def __init__(self, lock: Lock | RLock | None = None) -> None:
        if lock is None:
            lock = self._new_lock()
        elif not isinstance(lock, (Lock, RLock)):
            msg = f"a condition needs a Lock or RLock of this package, not {type(lock).__name__}"
            raise TypeError(msg)
        self._open(_core.new_condition_storage(), lock)

    def _open(self, storage: Any, lock: Lock | RLock) -> None:  # type: ignore[override]
        super()._open(storage)
        self._lock = lock
        self.acquire, self.release = lock.acquire, lock.release

    @staticmethod
    def _new_lock() -> RLock:
        return RLock()

    def __getstate__(self) -> Any:
        return self._storage, self._lock

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait until notified, and acquire the lock again.

        Returns
        -------
        bool
            False after the timeout, in seconds.

        Raises
        ------
        RuntimeError
            If this thread does not have the lock.
        OwnerDied
            As `Lock.acquire` does; a notification goes to another thread.
        """
        return self._wait(self._lock, timeout)

    def wait_for(self, predicate: Callable[[], _Result], timeout: float | None = None) -> _Result:
        """Wait until `predicate()` is true, at most for `timeout` seconds; return its last result."""
        end = None if timeout is None else time.monotonic() + timeout
        while not (result := predicate()):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        """Let at most `n` waiting threads go on. RuntimeError if this thread does not have the lock."""
        self._notify(self._lock, n)

    def notify_all(self) -> None:
        """Let all waiting threads go on. RuntimeError if this thread does not have the lock."""
        self._notify(self._lock, _ALL)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._lock!r}>"
