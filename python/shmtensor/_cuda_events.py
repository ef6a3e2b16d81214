"""Events for which other processes wait, and sends that wait for nothing."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any, Literal
from weakref import WeakValueDictionary

import shmtensor._core as _core
from shmtensor import reducers
from shmtensor._device import device_number
from shmtensor.errors import CudaError, StaleHandleError
from shmtensor.storage import Storage
from shmtensor.tensor import Tensor

__all__ = ["Event", "collect", "get_sync", "set_sync"]

MOST = 1000  # events that a process makes; what drivers bear is not documented, torch stops at as many

_DEFAULT_STREAM = 1

_lock = threading.Lock()
_numbers = itertools.count(1)
_own: dict[int, _core.CudaEvent] = {}  # all that this process has made and not destroyed
_events: WeakValueDictionary[int, Event] = WeakValueDictionary()  # Python's objects of those
_received: WeakValueDictionary[int, Event] = WeakValueDictionary()  # of others, by id of the storage
_retired: deque[tuple[int, _core.BlockWatch]] = deque()  # without an object; another process may have it
_awaited: deque[Event] = deque()  # what streams here wait for: kept until it is done


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that the child does not have may have held it


os.register_at_fork(after_in_child=_after_fork)


class Event:
    """A point in the work of a GPU's stream, for which other processes can wait.

    Sent through `multiprocessing`, it arrives as an event that stands for the same point. What the driver
    has for it is destroyed when no process holds the event and no message refers to it, however they ended.

    Parameters
    ----------
    device
        ``"cuda:0"``, ``"cuda"`` for the first.

    Raises
    ------
    CudaError
        If this process has 1,000 events already that others still have.
    CudaUnavailable
        If there is no such GPU, or its driver shares no events.

    Notes
    -----
    A stream is a number, as `__cuda_array_interface__` and DLPack have it (1: the default one, else the
    address), or an object with `__cuda_stream__`. The process that made an event must live until those who
    wait for it have received it: they get `ProducerGone` else.
    """

    __slots__ = ("__weakref__", "_block", "_event", "_number")

    _event: _core.CudaEvent
    _block: Storage
    _number: int  # 0: another process made it

    def __init__(self, device: str = "cuda") -> None:
        number = device_number(device)
        if number < 0:
            msg = "an event belongs to a GPU"
            raise ValueError(msg)
        with _lock:
            made = _take(number)
            if made is None:
                msg = f"cannot make an event: other processes still have {MOST} of this one's"
                raise CudaError(msg, 0)
            self._number, self._event, self._block = made
            _events[self._number] = self

    # Without a lock: a garbage collection may call this anywhere.
    def __del__(self, retired: Any = _retired, watch: Any = _core.BlockWatch) -> None:
        if getattr(self, "_number", 0):
            retired.append((self._number, watch(self._block)))

    @property
    def device(self) -> str:
        """Name of the device."""
        return f"cuda:{self._event.device}"

    def record(self, stream: Any = _DEFAULT_STREAM) -> None:
        """Stand for the end of what `stream` has been given until now, and for nothing before."""
        self._event.record(_address(stream))

    def wait(self, stream: Any = _DEFAULT_STREAM) -> None:
        """Let `stream` go on only behind the event. Does not wait itself."""
        self._event.let_wait(_address(stream))

    def query(self) -> bool:
        """Is everything done that the event stands for?"""
        return self._event.is_done()

    def synchronize(self) -> None:
        """Wait until everything is done that the event stands for."""
        self._event.synchronize()

    def __reduce__(self) -> Any:
        msg = "an Event can only be sent through multiprocessing"
        raise TypeError(msg)


def _address(stream: Any) -> int:
    protocol = getattr(stream, "__cuda_stream__", None)
    return int(stream if protocol is None else (protocol() if callable(protocol) else protocol)[1])


def _take(device: int) -> tuple[int, _core.CudaEvent, Storage] | None:
    core = _recycled(device)
    if core is None:
        if len(_own) >= MOST:
            return None
        core = _core.CudaEvent.make(device)
    number = next(_numbers)
    description = core.describe(number)
    block = Storage(len(description))
    memoryview(block)[:] = description
    _own[number] = core
    return number, core, block


def _recycled(device: int) -> _core.CudaEvent | None:
    # The oldest is the likeliest; all are looked at only when no more can be made.
    for _ in range(len(_retired) if len(_own) >= MOST else min(1, len(_retired))):
        number, watch = _retired.popleft()
        if not watch.is_free():
            _retired.append((number, watch))
            continue
        core = _own.pop(number, None)  # None: it came back to this process, and was retired twice
        if core is not None and core.device == device:
            return core
    return None


def _reduce_event(event: Event) -> Any:
    return _rebuild_event, (event._block,)


def _rebuild_event(block: Storage) -> Event:
    description = bytes(block)
    number = _core.cuda_own_event(description)
    known, name = (_events, number) if number else (_received, id(block))
    with _lock:
        event = known.get(name)
        if event is None:
            event = Event.__new__(Event)
            event._number = 0
            event._block = block
            if not number:
                event._event = _core.CudaEvent.open(description)
                event._event.block = block
            elif number in _own:
                event._event = _own[number]
                event._number = number
            else:
                msg = f"cannot use an event: this process has made none with the number {number}"
                raise StaleHandleError(msg)
            known[name] = event
        return event


ForkingPickler.register(Event, _reduce_event)


# --- sends ---

_by_event = False


def set_sync(sync: Literal["host", "event"]) -> None:
    """Say how the reader of a sent tensor is kept from reading too early; for this process.

    Parameters
    ----------
    sync
        ``"host"``, the default: a send waits until what this process has started on the device is done.
        ``"event"``: a send waits for nothing. An event, recorded on the default stream, goes with the
        message, and at every receive the reader's default stream waits for it, and with it what shmtensor
        copies. So what is to be done before must be on the default stream, or that must wait for it; and the
        reader's other streams must wait for the reader's default one (DLPack's `stream` argument sees to
        that).

    Notes
    -----
    With events, who sends must live until the message is received, else `ProducerGone` is raised there. A
    sender that is killed while its work is running may leave the reader's stream waiting. Where the driver
    has no events for several processes, and while others still have 1,000 of this one's, a send waits as
    with ``"host"``.
    """
    if sync not in {"host", "event"}:
        msg = f"sync is 'host' or 'event', not {sync!r}"
        raise ValueError(msg)
    global _by_event
    _by_event = sync == "event"
    ForkingPickler.register(Tensor, _reduce_tensor if _by_event else _core.reduce_tensor)
    ForkingPickler.register(Storage, _reduce_storage if _by_event else reducers._reduce_storage)


def get_sync() -> str:
    """Return what `set_sync` was last given."""
    return "event" if _by_event else "host"


def _reduce_tensor(tensor: Tensor) -> Any:
    event = _recorded(tensor.storage())
    if event is None:
        return _core.reduce_tensor(tensor)
    return _rebuild_after, (event._block, *_core.reduce_after_event(tensor))


def _reduce_storage(storage: Storage) -> Any:
    event = _recorded(storage)
    if event is None:
        return reducers._reduce_storage(storage)
    return _rebuild_after, (event._block, *_core.reduce_after_event(storage))


def _recorded(storage: Storage) -> Event | None:
    device = _core.device_number(storage)
    if device < 0 or not _core.cuda_is_exposed(storage):
        return None  # nobody but shmtensor has started anything on it, and we wait for what we start
    try:
        event = Event(f"cuda:{device}")
    except CudaError:
        return None
    event.record()
    return event


def _rebuild_after(block: Storage, rebuild: Any, arguments: Any) -> Any:
    try:
        event = _rebuild_event(block)
        event.wait()
    except CudaError:
        rebuild(*arguments)  # and lets go: what the message carried does not stay allocated
        raise
    made = rebuild(*arguments)
    made.data_ptr()  # marks it: our copies, and who sends or drops it, wait for the default stream, too
    if not event.query():
        _awaited.append(event)
    _forget_awaited()
    return made


def _forget_awaited() -> None:
    while True:
        try:
            event = _awaited.popleft()
        except IndexError:
            return
        if not event.query():
            _awaited.appendleft(event)
            return


def collect() -> None:
    """Let go of what is done, and destroy the events that nobody has any more."""
    _forget_awaited()
    with _lock:
        for _ in range(len(_retired)):
            number, watch = _retired.popleft()
            if watch.is_free():
                _own.pop(number, None)
            else:
                _retired.append((number, watch))
