"""Named objects: one process publishes an object under a name, and all processes of the session attach.

docs/design/named-objects.md describes the protocol, and why a kill at any instant leaves it consistent.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import shmtensor._core as _core
from shmtensor.errors import (
    BuildError,
    NotPublishedError,
    SessionError,
    ShmTensorError,
    StaleHandleError,
)
from shmtensor.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["attach", "once", "publish", "unpublish"]

Built = TypeVar("Built")

_SHORTEST, _LONGEST = 0.0005, 0.02  # seconds between two checks of a waiting process

_building = threading.local()  # by name, the lock of the last build in this thread
_warned = False


def publish(name: str, obj: Any) -> None:
    """Publish an object under a name, for all processes of the session.

    Tensors, storages, shared containers, and what `share` has made are shared, not copied; the rest is
    pickled. The object stays published until `unpublish` or the end of the session, also if this process
    ends.

    Parameters
    ----------
    name
        1 to 167 bytes in UTF-8, such as ``"train/meta"``. An object that was published under it before is
        replaced; processes that have attached keep that object.
    obj
        Anything that `multiprocessing` can send.

    Raises
    ------
    OutOfSharedMemory
        If there is not enough memory, or the session has used 4,096 names, including those unpublished.
    SessionError
        If another process holds the name for more than 10 seconds.
    """
    number = _number(name, make=True)
    with _core.NameLock(number) as lock:
        _take(lock, name, time.monotonic() + 10.0)
        _put(lock, obj, failed=False)
        lock.publish()


def attach(name: str, timeout: float | None = 0.0) -> Any:
    """Return the object published under a name.

    Parameters
    ----------
    name
        As in `publish`.
    timeout
        Seconds to wait; None waits indefinitely.

    Returns
    -------
    object
        The object; its tensors and containers are the published memory, not copies.

    Raises
    ------
    NotPublishedError
        If nothing is published under the name within the timeout.
    BuildError
        If the function that `once` ran to build the object raised.
    StaleHandleError
        If the memory is gone: the manager was killed while no living process held it.
    """
    number = _number(name, make=False)
    deadline = None if timeout is None else time.monotonic() + timeout
    wait = _Wait(deadline)
    while True:
        if number is None:
            number = _number(name, make=False)
        if number is not None:
            found, obj = _get(number, name)
            if found:
                return obj
        if not wait.again():
            msg = f"nothing is published under {name!r}" + (f" after {timeout} s" if timeout else "")
            raise NotPublishedError(msg)


def once(name: str, build: Callable[[], Built], timeout: float | None = None) -> Built:
    """Return the object published under `name`, building it in exactly one process if there is none.

    Of all processes of the session that call this function, one runs `build` and publishes the result; the
    others wait and attach. If the builder dies, another process builds. If `build` raises, the builder gets
    its exception, and all other processes get a `BuildError` until `unpublish`.

    Parameters
    ----------
    name
        As in `publish`.
    build
        A function without arguments.
    timeout
        Seconds to wait for another builder; None waits as long as it lives.

    Raises
    ------
    OutOfSharedMemory
        As for `publish`.
    NotPublishedError
        If another process is still building after the timeout.
    BuildError
        If `build` raised in another process.
    RuntimeError
        If `build` calls `once` with the same name.

    Warns
    -----
    RuntimeWarning
        Once in a process that another Python program has executed and that has no named session: others that
        this program executes have sessions of their own, and build again. Set ``SHMTENSOR_SESSION``.
    """
    number = _number(name, make=True)
    wait = _Wait(None if timeout is None else time.monotonic() + timeout)
    outer = _building.__dict__.get(name)
    if outer is not None and outer.held:
        msg = f"recursive once({name!r})"
        raise RuntimeError(msg)
    with _core.NameLock(number) as lock:
        while True:
            state, stage, _, alive = _core.name_read(number)
            if stage == "published":
                try:
                    found, obj = _get(number, name)
                except StaleHandleError:
                    found = False  # the memory is gone with its holders: build the object again
                    alive = False
                if found:
                    return obj  # type: ignore[no-any-return]
            if stage == "free" or not alive:
                _warn_of_siblings()
                if _claim(lock, state):
                    _building.__dict__[name] = lock
                    return _build(lock, build)
                continue
            if not wait.again():
                msg = f"{name!r} is still being built by another process after {timeout} s"
                raise NotPublishedError(msg)


def unpublish(name: str) -> bool:
    """Remove a name; processes that have attached keep the object until the last of them releases it.

    Returns
    -------
    bool
        True if the name was published.

    Raises
    ------
    SessionError
        If another process holds the name for more than 10 seconds.
    """
    number = _number(name, make=False)
    if number is None:
        return False
    _, stage, handle, _ = _core.name_read(number)
    if stage == "free" and not any(handle):
        return False
    with _core.NameLock(number) as lock:
        _take(lock, name, time.monotonic() + 10.0)
    return True


def _number(name: str, *, make: bool) -> Any:
    if not isinstance(name, str):
        msg = f"a name must be a string, not {type(name).__name__} {name!r}"
        raise TypeError(msg)
    return _core.name_number(name.encode(), make)  # UnicodeEncodeError names a lone surrogate


class _Wait:
    """Exponentially longer sleeps, until a deadline."""

    def __init__(self, deadline: float | None) -> None:
        self._deadline = deadline
        self._nap = _SHORTEST

    def again(self) -> bool:
        """Sleep and return True, or return False after the deadline."""
        rest = float("inf") if self._deadline is None else self._deadline - time.monotonic()
        if not rest > 0:  # also if the timeout is not a number
            return False
        time.sleep(min(self._nap, rest))
        self._nap = min(self._nap * 1.5, _LONGEST)
        _core.ensure_managers()  # a killed manager does not notice deaths; the next one does
        return True


def _take(lock: _core.NameLock, name: str, deadline: float) -> None:
    """Lock the name and clear it."""
    wait = _Wait(deadline)
    while True:
        state, stage, _, alive = _core.name_read(lock.number)
        if stage != "busy" or not alive:
            if _claim(lock, state):
                return
            continue
        if not wait.again():
            msg = f"name {name!r} is locked by another process (building or stopped)"
            raise SessionError(msg)


def _claim(lock: _core.NameLock, state: int) -> bool:
    """Lock the name and clear it; return False if the state has changed."""
    if not lock.acquire(state):
        return False
    _clear(lock)  # if this raises, the next process that locks the name clears the rest
    return True


def _build(lock: _core.NameLock, build: Callable[[], Built]) -> Built:
    try:
        obj = build()
        _put(lock, obj, failed=False)
    except Exception:  # an interrupt is not a failure of the function: another process may build
        if _try_to_report(lock):
            lock.publish()
        raise
    lock.publish()
    return obj


def _warn_of_siblings() -> None:
    global _warned
    if _warned or hasattr(sys, "ps1") or not _core.home_is_of_this_process():  # ps1: a person's only process
        return
    parent = os.getppid()
    try:
        by_python = os.path.samefile("/proc/self/exe", f"/proc/{parent}/exe")  # noqa: PTH121
    except OSError:  # the parent is another user's, or has ended
        return
    if by_python:
        _warned = True
        msg = (
            "this process builds in a session of its own, which other programs that its parent (pid "
            f"{parent}, a Python program) executes do not join. If they call `once` too, set the environment "
            "variable SHMTENSOR_SESSION to the same text for all of them; if there are none, to any text"
        )
        warnings.warn(msg, RuntimeWarning, stacklevel=3)


def _try_to_report(lock: _core.NameLock) -> bool:
    import traceback  # in Python 3.14 it imports dataclasses, which takes longer than this whole package

    try:
        _clear(lock)  # a signal handler may have raised after the object was written
        _put(lock, traceback.format_exc(), failed=True)
    except (ShmTensorError, OSError):  # not even memory or a descriptor for the report
        return False
    return True


def _put(lock: _core.NameLock, obj: Any, *, failed: bool) -> None:
    """Write the handle of the object."""
    from shmtensor._queue.pickling import dumps_shared

    with _core.MessageScope("persistent") as kept:
        content = dumps_shared(obj)
        packed = pickle.dumps((content, kept.tickets(), failed), 5)
        storage = Storage(len(packed))
        memoryview(storage)[:] = packed
        handle: bytes = _core.reduce_storage(storage)[1][0]
        lock.write(handle)
        # Last: if the builder is killed before this, it leaves an ordinary unread message.
        kept.keep()
        kept.delivered()


def _get(number: int, name: str) -> tuple[bool, Any]:
    """Return True and the published object, or False and None."""
    while True:
        state, stage, handle, _ = _core.name_read(number)
        if stage != "published":
            return False, None
        try:
            with _core.MessageScope("borrowed"):
                storage = _core.rebuild_storage(handle)
                content, _, failed = pickle.loads(memoryview(storage))
                obj = pickle.loads(content)
        except StaleHandleError:
            if _core.name_read(number)[0] == state:
                raise
            continue  # it was replaced
        if failed:
            msg = f"{name!r} could not be built; unpublish it to try again. Traceback of the builder:\n{obj}"
            raise BuildError(msg)
        return True, obj


def _clear(lock: _core.NameLock) -> None:
    """Release what the name keeps. May be repeated: a process killed in here did a part of it."""
    handle = _core.name_read(lock.number)[2]
    if not any(handle):
        return
    try:
        with _core.MessageScope("borrowed"):
            storage = _core.rebuild_storage(handle)
        _core.cancel_tickets(pickle.loads(memoryview(storage))[1])
        _core.rebuild_storage(handle)  # last, the ticket of the list of tickets itself
    except StaleHandleError:
        pass  # another process did all of it
    lock.write(bytes(len(handle)))
