"""Forks of this process: what a forked child resets, renews and closes.

A forked child has only the thread that forked. A lock that another thread held stays locked in the child, and
an open copy of a descriptor can hide the death of the parent.

Any thread may fork at any time. Descriptors that a forked child must close are therefore opened and closed
under a lock that a fork acquires first: a child finds each of them either open and registered, or closed, and
never a number that belongs to another file by then.
"""

from __future__ import annotations

import _imp
import os
import threading
import time
import weakref
from contextlib import suppress
from importlib import _bootstrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeVar

    class _Resettable(Protocol):
        def reset_in_child(self) -> None: ...

    Function = TypeVar("Function", bound=Callable[[], Any])


# In seconds: an import takes some if processors are busy. Bounded: a finalizer or a signal handler in the
# thread that holds the lock, or a module that a thread imports, may wait for a lock that the forking thread
# holds, such as that of `logging`.
_FORK_TIMEOUT = 10.0

_module_locks: Any = getattr(_bootstrap, "_module_locks", {})  # each while a thread uses it
_locks: list[RenewedLock] = []
_objects: weakref.WeakSet[_Resettable] = weakref.WeakSet()


class RenewedLock:
    """A lock of a module, which a forked child replaces by a new one. Calling it returns the current lock."""

    def __init__(self, kind: Callable[[], Any] = threading.RLock) -> None:
        self._kind = kind
        self.renew()
        _locks.append(self)

    def __call__(self) -> threading.RLock:
        return self._current

    def renew(self) -> None:
        self._current: threading.RLock = self._kind()


no_fork = RenewedLock()
"""The lock under which no other thread forks."""


def after_fork_in_child(function: Function) -> Function:
    """Have a function of a module called in every forked child; a decorator."""
    os.register_at_fork(after_in_child=function)
    return function


def reset_in_forked_children(thing: _Resettable) -> None:
    """Have `thing.reset_in_child` called in every forked child as long as the object exists."""
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
            self._close(os.close)

    def _close(self, close: Callable[[int], None]) -> None:
        fd = self.detach()  # first: if closing fails, no second call closes the same number
        if fd >= 0:
            close(fd)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # the interpreter's end clears `os`
        self._close(close)  # without the lock: a finalizer should not wait, and the descriptor is unused


def _is_half_imported() -> bool:
    """Return True if another thread imports a module of this package."""
    return any(
        name.startswith("shmtensor.")
        and getattr(reference(), "owner", None) not in (None, threading.get_ident())
        for name, reference in list(_module_locks.items())
    )


def _before() -> None:
    """Acquire the lock while no other thread imports a module of this package, nor can begin to.

    The package imports most of its modules when they are first used. A child in which such a module is half
    imported would wait for it forever. Without the import lock, which the fork itself acquires, too, a thread
    could begin before the fork.
    """
    end = time.monotonic() + _FORK_TIMEOUT
    while True:
        no_fork().acquire(timeout=_FORK_TIMEOUT)
        _imp.acquire_lock()
        if not _is_half_imported() or time.monotonic() > end:
            return
        _imp.release_lock()
        _in_parent()
        time.sleep(0.001)


def _in_parent() -> None:
    with suppress(RuntimeError):  # the timeout passed before the lock was free
        no_fork().release()


def _in_child() -> None:
    for lock in _locks:
        lock.renew()
    for thing in list(_objects):
        with suppress(OSError):  # closed by code that does not own it: the others must still be closed
            thing.reset_in_child()


# The function itself, before which no signal handler can raise.
os.register_at_fork(after_in_parent=_imp.release_lock, after_in_child=_imp.release_lock)
# The functions of other modules run after this one in a child: their locks are then renewed.
os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
