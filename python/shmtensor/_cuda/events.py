"""CUDA events that other processes can wait on."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any
from weakref import WeakValueDictionary

import shmtensor._core as _core
from shmtensor._dlpack import DEFAULT_STREAM
from shmtensor._fork import RenewedLock
from shmtensor._values import device_number
from shmtensor.errors import CudaError, StaleHandleError

MOST = 1000  # events of one process; the limit of drivers is not documented, torch has the same one

_lock = RenewedLock(threading.Lock)
_numbers = itertools.count(1)
_own: dict[int, _core.CudaEvent] = {}  # made by this process and not destroyed
_events: WeakValueDictionary[int, Event] = WeakValueDictionary()  # the Python objects of those
_received: WeakValueDictionary[int, Event] = WeakValueDictionary()  # of others, by id of the storage
_retired: deque[tuple[int, _core.BlockWatch]] = deque()  # without an object; another process may hold it
_awaited: deque[Event] = deque()  # waited for by streams of this process, kept until they are done


class Event:
    """A CUDA event that other processes can wait on.

    Sent through `multiprocessing`, it arrives as an event for the same recorded work. The driver's event is
    destroyed when no process holds it and no unread message refers to it, however the processes ended.

    Parameters
    ----------
    device
        ``"cuda:0"``; ``"cuda"`` is the first GPU.

    Raises
    ------
    CudaError
        If 1,000 events of this process are still in use by other processes.
    CudaUnavailable
        If there is no such GPU, or its driver does not support events that processes share.

    Notes
    -----
    A stream is a number, as in `__cuda_array_interface__` and DLPack (1 is the default stream, any other
    number is an address), or an object with `__cuda_stream__`. The process that made an event must live
    until the processes that wait on it have received it; otherwise they raise `ProducerGone`.
    """

    __slots__ = ("__weakref__", "_block", "_event", "_number")

    _event: _core.CudaEvent
    _block: _core.StorageBase
    _number: int  # 0: made by another process

    def __init__(self, device: str = "cuda") -> None:
        number = device_number(device)
        if number < 0:
            msg = f"the device of an event must be a GPU, not {device!r}"
            raise ValueError(msg)
        with _lock():
            made = _take(number)
            if made is None:
                msg = f"cannot make an event: {MOST} events of this process are still in use by others"
                raise CudaError(msg, 0)
            self._number, self._event, self._block = made
            _events[self._number] = self

    # Without the lock: a garbage collection may call this while the lock is held.
    def __del__(self, retired: Any = _retired, watch: Any = _core.BlockWatch) -> None:
        if getattr(self, "_number", 0):
            retired.append((self._number, watch(self._block)))

    @property
    def device(self) -> str:
        """Name of the device."""
        return f"cuda:{self._event.device}"

    def record(self, stream: Any = DEFAULT_STREAM) -> None:
        """Record the event on `stream`: it completes when the work submitted so far completes."""
        self._event.record(_address(stream))

    def wait(self, stream: Any = DEFAULT_STREAM) -> None:
        """Make `stream` wait for the event; does not block the caller."""
        self._event.let_wait(_address(stream))

    def query(self) -> bool:
        """Return True if the recorded work has completed."""
        return self._event.is_done()

    def synchronize(self) -> None:
        """Block until the recorded work has completed."""
        self._event.synchronize()

    def __reduce__(self) -> Any:
        msg = "an Event can only be sent through multiprocessing"
        raise TypeError(msg)


def _address(stream: Any) -> int:
    protocol = getattr(stream, "__cuda_stream__", None)
    return int(stream if protocol is None else (protocol() if callable(protocol) else protocol)[1])


def _take(device: int) -> tuple[int, _core.CudaEvent, _core.StorageBase] | None:
    core = _recycled(device)
    if core is None:
        if len(_own) >= MOST:
            return None
        core = _core.CudaEvent(device)
    number = next(_numbers)
    description = core.describe(number)
    block = _core.new_storage(len(description), False)
    memoryview(block)[:] = description
    _own[number] = core
    return number, core, block


def _recycled(device: int) -> _core.CudaEvent | None:
    # The oldest is the most likely to be free; all are checked only when no more can be made.
    for _ in range(len(_retired) if len(_own) >= MOST else min(1, len(_retired))):
        number, watch = _retired[0]
        if not watch.is_free():
            _retired.rotate(-1)
            continue
        core = _own.pop(number, None)  # None: the event came back to this process and was retired twice
        _retired.popleft()  # last: a signal handler may raise between two steps
        if core is not None and core.device == device:
            return core
    return None


def _reduce_event(event: Event) -> Any:
    return rebuild_event, (event._block,)


def rebuild_event(block: _core.StorageBase) -> Event:
    description = bytes(block)
    number = _core.cuda_own_event(description)
    known, name = (_events, number) if number else (_received, id(block))
    event = known.get(name)
    if event is not None:
        return event
    event = Event.__new__(Event)
    event._number = 0
    event._block = block
    if not number:
        event._event = _core.CudaEvent(description)  # can wait for the end of its maker: without the lock
        event._event.block = block
    with _lock():
        if (other := known.get(name)) is not None:  # made by another thread meanwhile
            return other
        if number:
            if number not in _own:
                msg = f"cannot use an event: this process has no event with the number {number}"
                raise StaleHandleError(msg)
            event._event = _own[number]
            event._number = number
        known[name] = event
        return event


ForkingPickler.register(Event, _reduce_event)


def let_default_stream_wait(event: Event) -> None:
    """Make the default stream wait for a message's event, and keep it until it is done.

    If its maker ends before that, waits for the device raise `ProducerGone`: the stream never continues.
    """
    event._event.let_default_stream_wait()
    if not event.query():
        _awaited.append(event)
    _forget_awaited()


def _forget_awaited() -> None:
    unfinished = 0
    for _ in range(len(_awaited)):
        try:
            event = _awaited.popleft()
        except IndexError:  # another thread releases them, too
            return
        if not event.query():
            _awaited.append(event)
            unfinished += 1
            if unfinished == 2:  # not only the first: an event of a process that was killed never completes
                return


def collect() -> None:
    """Release the events that are done, and destroy those that no process holds."""
    _forget_awaited()
    with _lock():
        for _ in range(len(_retired)):
            number, watch = _retired[0]
            if watch.is_free():
                _own.pop(number, None)
                _retired.popleft()  # last, as above
            else:
                _retired.rotate(-1)
