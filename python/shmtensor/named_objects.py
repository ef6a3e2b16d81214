"""Rendezvous by name: one process builds, all of the session attach.

The protocol, and why a kill at any instant leaves nothing wrong, is in docs/design/rendezvous.md.
"""

from __future__ import annotations

import pickle
import threading
import time
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

_SHORTEST, _LONGEST = 0.0005, 0.02  # seconds between two looks of who waits

_building = threading.local()


def publish(name: str, obj: Any) -> None:
    """Make an object known to all processes of the session under a name.

    Tensors, storages and shared containers in it are shared, not copied; the rest is pickled. It stays
    until `unpublish` or the end of the session, whoever ends meanwhile, this process included.

    Parameters
    ----------
    name
        1 to 167 bytes in UTF-8, such as ``"train/meta"``. What was published under it before is replaced;
        who has attached keeps that.
    obj
        Anything that `multiprocessing` can send.

    Raises
    ------
    OutOfSharedMemory
        If there is no memory, or 4,096 names have been used in the session, those unpublished included.
    SessionError
        If another process is busy with the name for more than 10 seconds.
    """
    number = _number(name, make=True)
    state = _take(number, name, time.monotonic() + 10.0)
    try:
        _put(number, obj, failed=False)
    except BaseException:
        _change(number, state, "free")
        raise
    _change(number, state, "published")


def attach(name: str, timeout: float | None = 0.0) -> Any:
    """Return what is published under a name.

    Parameters
    ----------
    name
        As in `publish`.
    timeout
        Seconds to wait for it; None: for ever.

    Returns
    -------
    object
        Tensors and containers in it are the published memory, not copies.

    Raises
    ------
    NotPublishedError
        If it is not there in time.
    BuildError
        If it was to be built by `once`, and that raised.
    StaleHandleError
        If its memory is gone: the manager was killed when no living process had it.
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
    """Return what is published under a name; if nothing is, one process of all builds it.

    Of all processes of the session that call this, one runs `build` and publishes what it returns; the
    others wait for that and attach. If the builder dies, another one builds. If `build` raises, that
    process sees its exception and all others, now and later, a `BuildError`, until `unpublish`.

    Parameters
    ----------
    name
        As in `publish`.
    build
        A function without arguments.
    timeout
        Seconds to wait for another builder; None: as long as it lives.

    Raises
    ------
    OutOfSharedMemory
        As for `publish`.
    NotPublishedError
        If another process is still building when the time is over.
    BuildError
        If `build` raised in another process.
    RuntimeError
        If `build` asks for the name that it builds.
    """
    if name in getattr(_building, "names", ()):
        msg = f"the function that builds {name!r} asks for {name!r}"
        raise RuntimeError(msg)
    number = _number(name, make=True)
    wait = _Wait(None if timeout is None else time.monotonic() + timeout)
    while True:
        state, stage, _, alive = _core.name_read(number)
        if stage == "published":
            try:
                found, obj = _get(number, name)
            except StaleHandleError:
                found = False  # the memory is gone with those who had it: it is built anew
                alive = False
            if found:
                return obj  # type: ignore[no-any-return]
        if stage == "free" or (stage == "busy" and not alive) or (stage == "published" and not alive):
            mine = _claim(number, state)
            if mine is not None:
                return _build(number, mine, name, build)
            continue
        if not wait.again():
            msg = f"{name!r} is still being built by another process after {timeout} s"
            raise NotPublishedError(msg)


def unpublish(name: str) -> bool:
    """Remove a name; who has attached keeps the object, and its memory is freed with the last of them.

    Returns
    -------
    bool
        Was there anything under it?

    Raises
    ------
    SessionError
        If another process is busy with the name for more than 10 seconds.
    """
    number = _number(name, make=False)
    if number is None:
        return False
    _, stage, handle, _ = _core.name_read(number)
    if stage == "free" and not any(handle):
        return False
    state = _take(number, name, time.monotonic() + 10.0)
    _change(number, state, "free")
    return True


def _number(name: str, *, make: bool) -> Any:
    if not isinstance(name, str):
        msg = f"a name is a string, not {type(name).__name__} {name!r}"
        raise TypeError(msg)
    return _core.name_number(name, make)


class _Wait:
    """Longer and longer naps, until the deadline."""

    def __init__(self, deadline: float | None) -> None:
        self._deadline = deadline
        self._nap = _SHORTEST

    def again(self) -> bool:
        """Sleep; False when the time is over."""
        rest = float("inf") if self._deadline is None else self._deadline - time.monotonic()
        if rest <= 0:
            return False
        time.sleep(min(self._nap, rest))
        self._nap = min(self._nap * 1.5, _LONGEST)
        _core.follow_managers()  # a killed manager notices no death; the next one does
        return True


def _take(number: int, name: str, deadline: float) -> int:
    """Become the one who is busy with the name; return the state."""
    wait = _Wait(deadline)
    while True:
        state, stage, _, alive = _core.name_read(number)
        if stage != "busy" or not alive:
            mine = _claim(number, state)
            if mine is not None:
                return mine
            continue
        if not wait.again():
            msg = f"another process is busy with the name {name!r}; is it building, or stopped?"
            raise SessionError(msg)


def _claim(number: int, state: int) -> int | None:
    """Become the one who is busy with the name, with nothing under it; None if the state has moved on."""
    mine = _core.name_change(number, state, "busy")
    if mine is None:
        return None
    try:
        _clear(number)
    except BaseException:
        _change(number, mine, "free")  # the next one clears the rest
        raise
    return mine


def _change(number: int, state: int, stage: str) -> None:
    if _core.name_change(number, state, stage) is None:
        msg = "this process was taken for dead while it was busy with a name"
        raise SessionError(msg)


def _build(number: int, state: int, name: str, build: Callable[[], Built]) -> Built:
    names = _building.__dict__.setdefault("names", set())
    names.add(name)
    try:
        obj = build()
        _put(number, obj, failed=False)
    except BaseException as error:
        # What interrupts a process is no fault of the function: another one may build.
        told = False
        try:
            told = isinstance(error, Exception) and _try_to_tell(number)
        finally:
            _change(number, state, "published" if told else "free")
        raise
    finally:
        names.discard(name)
    _change(number, state, "published")
    return obj


def _try_to_tell(number: int) -> bool:
    import traceback  # in Python 3.14 it brings in dataclasses, which takes longer than all of this package

    try:
        _put(number, traceback.format_exc(), failed=True)
    except (ShmTensorError, OSError):  # no memory, or no descriptor, even for that
        return False
    return True


def _put(number: int, obj: Any, *, failed: bool) -> None:
    """Write the object's handle, for who is busy with the name."""
    from multiprocessing.reduction import ForkingPickler

    with _core.Outgoing(to_keep=True) as kept:
        content = bytes(ForkingPickler.dumps(obj))
        packed = pickle.dumps((content, kept.tickets(), failed), 5)
        storage = Storage(len(packed))
        memoryview(storage)[:] = packed
        handle: bytes = _core.reduce_storage(storage)[1][0]
        _core.name_write(number, handle)
        # Only now: before this, what a killed builder leaves is a message like any other.
        kept.keep()
        kept.delivered()


def _get(number: int, name: str) -> tuple[bool, Any]:
    """Load what is published; (False, None) if nothing is."""
    while True:
        state, stage, handle, _ = _core.name_read(number)
        if stage != "published":
            return False, None
        try:
            with _core.Peek():
                storage = _core.rebuild_storage(handle)
                content, _, failed = pickle.loads(memoryview(storage))
                obj = pickle.loads(content)
        except StaleHandleError:
            if _core.name_read(number)[0] == state:
                raise
            continue  # it was replaced meanwhile
        if failed:
            msg = f"{name!r} could not be built; unpublish it to try again. It said:\n{obj}"
            raise BuildError(msg)
        return True, obj


def _clear(number: int) -> None:
    """Let go of what the name keeps. May be repeated: who was killed here did a part of it."""
    handle = _core.name_read(number)[2]
    if not any(handle):
        return
    try:
        with _core.Peek():
            storage = _core.rebuild_storage(handle)
        _core.spend_tickets(pickle.loads(memoryview(storage))[1])
        _core.rebuild_storage(handle)  # last, the ticket of the list of tickets
    except StaleHandleError:
        pass  # all of it was done
    _core.name_write(number, bytes(len(handle)))
