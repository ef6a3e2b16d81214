"""Named objects: one process publishes an object under a name, and all processes of the session attach.

docs/design/manager.md describes the protocol, and why a kill at any instant leaves it consistent.
"""

from __future__ import annotations

import pickle
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import shmtensor._core as _core
from shmtensor._kept import check_kept, kept_seconds
from shmtensor._siblings import warn_of_siblings
from shmtensor._values import check_number
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


def publish(name: str, obj: Any, *, keep: bool | float = False) -> None:
    """Publish an object under a name, for all processes of the session.

    Tensors, storages, shared containers, and what `share` has made are shared, not copied; of the rest, the
    buffers are copied once, as by `share`. The object stays published until `unpublish` or the end of the
    session, also if this process ends.

    Parameters
    ----------
    name
        1 to 167 bytes in UTF-8, such as ``"train/meta"``. An object that was published under it before is
        replaced in one step: `attach` returns the old or the new object, also if this process is killed.
        Processes that have attached keep the old one.
    obj
        Anything that `share` accepts.
    keep
        True: the object stays when the last process of the session has ended, for later programs with the
        same ``SHMTENSOR_SESSION``, until `unpublish`, ``shmtensor drop`` or the end of the manager. A number:
        at most for so many seconds in which the session has no process.

    Raises
    ------
    OutOfSharedMemory
        If there is not enough memory, the session has used 4,096 names, including those unpublished, or
        objects to be kept have more bytes than the environment variable ``SHMTENSOR_KEEP_BYTES`` permits.
    SessionError
        If another process holds the name for more than 10 seconds, or an object is to be kept in a session
        without a name. After this and any other exception, the old object is still published.
    ValueError
        If an object to be kept contains GPU memory of another library, which ends with its process.
    """
    number = _number(name, make=True)
    seconds = kept_seconds(name, keep)
    with _core.SendScope(persistent=True) as message:
        handle, _ = _dump(message, obj, failed=False)
        with _core.NameLock(number) as lock:
            _take(lock, name, keep=True)
            _write(lock, name, message, handle, seconds)
            lock.publish()
            _try_to_clear(lock)


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
        The object; its tensors, containers and buffers are the published memory, not copies. Arrays, and
        what else `share` copies, are read-only; tensors are as writable as they were.

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
    wait = _Wait(timeout)
    while True:
        if number is None:
            number = _number(name, make=False)
        if number is not None:
            found, obj = _get(number, name)
            if found:
                return obj
        if not wait.again():
            waited = f" after {timeout} s" if timeout else ""
            msg = (
                f"nothing is published under {name!r} in session {_core.home_id()}{waited}; if another "
                "program has, set the environment variable SHMTENSOR_SESSION to the same text for both; what "
                "was kept is lost if the session's manager was killed"
            )
            raise NotPublishedError(msg)


def once(
    name: str, build: Callable[[], Built], timeout: float | None = None, *, keep: bool | float = False
) -> Built:
    """Return the object published under `name`, building it in exactly one process if there is none.

    Of all processes of the session that call this function, one runs `build` and publishes the result; the
    others wait and attach. The builder, too, gets what `attach` returns, so there is one copy of the object's
    arrays. If the builder dies, another process builds. If `build` raises, the builder gets its exception,
    and all other processes get a `BuildError` until `unpublish`.

    Parameters
    ----------
    name
        As in `publish`.
    build
        A function without arguments.
    timeout
        Seconds to wait for another builder; None waits as long as it lives.
    keep
        As in `publish`; for the object that is built here.

    Raises
    ------
    OutOfSharedMemory, SessionError, ValueError
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
        Once in a process that another Python program has executed beside others, and that has no named
        session: the others have sessions of their own, and build again. Set ``SHMTENSOR_SESSION``.
    """
    if not callable(build):  # before a failure would be published
        msg = f"build must be a function, not {build!r:.60}"
        raise TypeError(msg)
    number = _number(name, make=True)
    seconds = kept_seconds(name, keep)
    wait = _Wait(timeout)
    outer = _building.__dict__.get(name)
    if outer is not None and outer.held:
        msg = f"recursive once({name!r})"
        raise RuntimeError(msg)
    with _core.NameLock(number) as lock:
        while True:
            state, stage, handle, _, alive = _core.name_read(number)
            if handle is not None:
                try:
                    found, obj = _get(number, name)
                except StaleHandleError:
                    found = False  # the memory is gone with its holders: build the object again
                    alive = alive and stage == "replacing"
                if found:
                    return obj  # type: ignore[no-any-return]
            if stage == "free" or not alive:
                warn_of_siblings(stacklevel=3)
                if _claim(lock, state):
                    _building.__dict__[name] = lock
                    return _build(lock, name, build, seconds)
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
    _, stage, _, left, _ = _core.name_read(number)
    if stage == "free" and not left:
        return False
    with _core.NameLock(number) as lock:
        _take(lock, name)
    return True


def _number(name: str, *, make: bool) -> Any:
    if not isinstance(name, str):
        msg = f"a name must be a string, not {type(name).__name__} {name!r}"
        raise TypeError(msg)
    return _core.name_number(name.encode(), make)  # UnicodeEncodeError names a lone surrogate


class _Wait:
    """Exponentially longer sleeps, until a timeout; None: there is none."""

    def __init__(self, timeout: float | None) -> None:
        seconds = float("inf") if timeout is None else check_number("timeout", timeout)
        self._deadline = time.monotonic() + seconds
        self._nap = _SHORTEST

    def again(self) -> bool:
        """Sleep and return True, or return False after the deadline."""
        rest = self._deadline - time.monotonic()
        if not rest > 0:  # also if the timeout is not a number
            return False
        time.sleep(min(self._nap, rest))
        self._nap = min(self._nap * 1.5, _LONGEST)
        _core.ensure_managers()  # a killed manager does not notice deaths; the next one does
        return True


def keep(name: str, seconds: float) -> bool:
    """Keep what is published, as `publish` does; return False if nothing is. For the command."""
    number = _number(name, make=False)
    if number is None or _core.name_read(number)[1] not in ("published", "replacing"):
        return False
    with _core.NameLock(number) as lock:
        _take(lock, name, keep=True)
        if _core.name_read(number)[1] != "replacing":
            return False  # it was unpublished meanwhile
        (found,) = (one for one in _core.names() if one["name"] == name)
        check_kept(name, found["bytes"], found["keep"] is None)
        lock.keep(seconds)
    return True


def _take(lock: _core.NameLock, name: str, *, keep: bool = False) -> None:
    """Lock the name and clear it; with `keep`, of all but the published object."""
    wait, before = _Wait(10.0), None
    while True:
        state, stage, _, _, alive = _core.name_read(lock.number)
        if state != before:  # another process has it now, so none is stopped
            wait, before = _Wait(10.0), state
        if stage in ("free", "published") or not alive:
            if _claim(lock, state, keep=keep):
                return
            continue
        if not wait.again():
            msg = f"name {name!r} is locked by another process (building or stopped)"
            raise SessionError(msg)


def _claim(lock: _core.NameLock, state: int, *, keep: bool = False) -> bool:
    """Lock the name and clear it; return False if the state has changed."""
    if not lock.acquire(state, keep):
        return False
    _clear(lock)  # if this raises, the next process that locks the name clears the rest
    return True


def _build(lock: _core.NameLock, name: str, build: Callable[[], Built], seconds: float) -> Built:
    try:
        built = build()
        del _building.__dict__[name]  # whose reference would keep the lock after an interrupt
        content = _put(lock, name, built, seconds, failed=False)
        obj = _load(content)
    except Exception:  # an interrupt is not a failure of the function: another process may build
        _building.__dict__.pop(name, None)
        if _try_to_report(lock, name):
            lock.publish()
        raise
    lock.publish()
    return obj  # type: ignore[no-any-return]


def _try_to_report(lock: _core.NameLock, name: str) -> bool:
    import traceback  # in Python 3.14 it imports dataclasses, which takes longer than this whole package

    try:
        _clear(lock)  # a signal handler may have raised after the object was written
        _put(lock, name, traceback.format_exc(), failed=True)
    except (ShmTensorError, OSError):  # not even memory or a descriptor for the report
        return False
    return True


def _put(lock: _core.NameLock, name: str, obj: Any, seconds: float = 0.0, *, failed: bool) -> bytes:
    """Write the handle of the object, and return its pickle."""
    with _core.SendScope(persistent=True) as message:
        handle, content = _dump(message, obj, failed=failed)
        _write(lock, name, message, handle, seconds)
    return content


def _dump(message: _core.SendScope, obj: Any, *, failed: bool) -> tuple[bytes, bytes]:
    """Return the handle of the object, and its pickle."""
    from shmtensor._share import dumps_in_shared_memory

    content = dumps_in_shared_memory(obj)
    packed = pickle.dumps((content, message.tickets(), failed), 5)
    storage = Storage(len(packed))
    memoryview(storage)[:] = packed
    return _core.reduce_storage(storage)[1][0], content


def _write(lock: _core.NameLock, name: str, message: _core.SendScope, handle: bytes, seconds: float) -> None:
    nbytes, external = message.nbytes(), message.has_external()
    if seconds:
        check_kept(name, nbytes, external)
    lock.write(handle, nbytes, seconds, external)
    # Last: if the process is killed before this, it leaves an ordinary unread message.
    message.keep(lock.mark)
    message.delivered()


def _get(number: int, name: str) -> tuple[bool, Any]:
    """Return True and the published object, or False and None."""
    while True:
        state, stage, handle, left, alive = _core.name_read(number)
        if handle is None:
            return False, None
        try:
            with _core.ReadScope():
                storage = _core.rebuild_storage(handle)
            content, _, failed = pickle.loads(memoryview(storage))
            obj = _load(content)
        except StaleHandleError:
            if _core.name_read(number)[0] == state:
                raise
            continue  # it was replaced
        if failed:
            msg = f"{name!r} could not be built; unpublish it to try again. Traceback of the builder:\n{obj}"
            raise BuildError(msg)
        if left and (stage == "published" or not alive):
            with _core.NameLock(number) as lock:  # a publisher was killed beside this object
                if lock.acquire(state, True):
                    _try_to_clear(lock)
        return True, obj


def _load(content: bytes) -> Any:
    with _core.ReadScope():
        return pickle.loads(content)


def _clear(lock: _core.NameLock) -> None:
    """Release what is not published. May be repeated: a process killed in here did a part of it."""
    for place, handle in lock.unpublished():
        try:
            with _core.ReadScope():
                storage = _core.rebuild_storage(handle)
            _core.cancel_tickets(pickle.loads(memoryview(storage))[1])
            _core.rebuild_storage(handle)  # last, the ticket of the list of tickets itself
        except StaleHandleError:
            pass  # another process did all of it
        lock.erase(place)


def _try_to_clear(lock: _core.NameLock) -> None:
    with suppress(ShmTensorError, OSError):  # the next process that attaches or locks the name does it
        _clear(lock)
