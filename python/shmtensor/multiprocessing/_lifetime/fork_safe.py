"""Objects whose descriptors a forked child must close: an open copy would hide the death of the parent.

Any thread may fork at any time. These descriptors are therefore opened and closed under a lock that a fork
acquires first: a child finds each of them either open and registered, or closed, and never a number that
belongs to another file by then.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class _Resettable(Protocol):
        def reset_in_child(self) -> None: ...


__all__ = ["Descriptor", "no_fork", "reset_in_forked_children"]

# In seconds. Bounded: a finalizer or a signal handler may run in the thread that holds the lock, and wait for
# a lock that the forking thread holds, such as that of `logging`.
_FORK_TIMEOUT = 1.0


_objects: weakref.WeakSet[_Resettable] = weakref.WeakSet()
_lock = threading.RLock()
_registered = False


def no_fork() -> threading.RLock:
    """Return the lock under which no other thread forks."""
    global _registered
    with _lock:
        if not _registered:
            os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
            _registered = True
    return _lock


def reset_in_forked_children(thing: _Resettable) -> None:
    """Have `thing.reset_in_child` called in every child that this process forks."""
    with no_fork():
        _objects.add(thing)


class Descriptor:
    """A file descriptor that is closed exactly once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the descriptor's number, -1 after it was closed or detached."""
        return self._fd

    def detach(self) -> int:
        """Return the number; from now on the caller closes it."""
        fd, self._fd = self._fd, -1
        return fd

    def close(self) -> None:
        with no_fork():
            self._close()

    def _close(self) -> None:
        fd = self.detach()  # first: if closing fails, no second call closes the same number
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self._close()  # without the lock: a finalizer should not wait, and the descriptor is unused


def _before() -> None:
    _lock.acquire(timeout=_FORK_TIMEOUT)


def _in_parent() -> None:
    with suppress(RuntimeError):  # the timeout passed before the lock was free
        _lock.release()


def _in_child() -> None:
    global _lock
    _lock = threading.RLock()  # another thread may have held the old one, and does not exist here
    objects = list(_objects)
    _objects.clear()
    for thing in objects:
        with suppress(OSError):  # closed by code that does not own it: the others must still be closed
            thing.reset_in_child()
