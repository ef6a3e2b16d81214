"""Descriptors that a forked child must not keep: with them open, nobody would notice the parent's death.

Another thread may fork at any time. So they are opened and closed under a lock that a fork takes too: a child
finds each of them open and known, or gone, and never a number that is by then another file's.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from typing import Protocol

__all__ = ["Descriptor", "keep_from_children", "no_fork"]

# In seconds. Bounded, since a finalizer or a signal handler may run in the thread that has the lock, and wait
# for what the forking thread has, such as the lock of `logging`.
_PATIENCE = 1.0


class _ParentOnly(Protocol):
    def forget_in_child(self) -> None: ...


_things: weakref.WeakSet[_ParentOnly] = weakref.WeakSet()
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


def keep_from_children(thing: _ParentOnly) -> None:
    """Have `thing.forget_in_child` called in every child that this process forks."""
    with no_fork():
        _things.add(thing)


class Descriptor:
    """The number of an open file, closed once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the number, -1 after the file was closed or given away."""
        return self._fd

    def detach(self) -> int:
        """Give it away: who gets it closes it."""
        fd, self._fd = self._fd, -1
        return fd

    def close(self) -> None:
        with no_fork():
            self._close()

    def _close(self) -> None:
        fd = self.detach()  # first: whatever happens, nobody closes that number again
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self._close()  # without the lock: a finalizer should not wait, and nobody needs the file any more


def _before() -> None:
    _lock.acquire(timeout=_PATIENCE)


def _in_parent() -> None:
    with suppress(RuntimeError):  # it was not to be had in time
        _lock.release()


def _in_child() -> None:
    global _lock
    _lock = threading.RLock()  # what another thread had, nobody would give back
    things = list(_things)
    _things.clear()
    for thing in things:
        with suppress(OSError):  # closed behind our back: the others are to be closed all the same
            thing.forget_in_child()
