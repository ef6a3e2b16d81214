"""Reducers for tensors on a GPU whose messages carry an event instead of blocking the sender."""

from __future__ import annotations

from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Literal

import shmtensor._core as _core
from shmtensor import reducers
from shmtensor._cuda.events import Event, let_default_stream_wait, rebuild_event
from shmtensor.errors import CudaError
from shmtensor.storage import Storage
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

_by_event = False


def set_sync(sync: Literal["host", "event"]) -> None:
    """Select how sends of this process order work on the device before the receiver's reads.

    Parameters
    ----------
    sync
        ``"host"``, the default: a send blocks until the work that this process has submitted to the device
        is done. ``"event"``: sends do not block. Each message carries an event recorded on the sender's
        default stream, and the receiver's default stream waits for it. Submit the producing work to the
        default stream, or make the default stream wait for it. To use the tensor on another stream, take it
        through DLPack, which orders the streams.

    Notes
    -----
    With events, the sender must live until the message is received; otherwise the receiver raises
    `ProducerGone`. If a sender is killed while its work is running, the receiver's default stream never
    continues, and waits for the device raise `ProducerGone`, too. Where the driver does not support events
    that processes share, and while 1,000 events of this process are in use by others, a send blocks as with
    ``"host"``.
    """
    if sync not in {"host", "event"}:
        msg = f"sync must be 'host' or 'event', not {sync!r}"
        raise ValueError(msg)
    global _by_event
    _by_event = sync == "event"
    for kind, reducer in ((Tensor, _core.reduce_tensor), (Storage, reducers.reduce_storage)):
        ForkingPickler.register(kind, partial(_reduce, reducer) if _by_event else reducer)


def get_sync() -> str:
    """Return ``"host"`` or ``"event"``, as `set_sync` was last called."""
    return "event" if _by_event else "host"


def _reduce(reducer: Callable[[Any], Any], memory: Tensor | Storage) -> Any:
    event = _recorded(memory.storage() if isinstance(memory, Tensor) else memory)
    if event is None:
        return reducer(memory)
    return _rebuild_after, (event._block, *_core.reduce_after_event(memory))


def _recorded(storage: Storage) -> Event | None:
    device = _core.device_number(storage)
    if device < 0 or not _core.cuda_is_exposed(storage):
        return None  # only shmtensor has used it, and waits for its own copies itself
    _core.cuda_refuse_stuck(device)  # the event would never complete
    try:
        event = Event(f"cuda:{device}")
    except CudaError:
        return None
    _core.cuda_join_users(storage)
    event.record()
    return event


def _rebuild_after(block: Storage, rebuild: Any, arguments: Any) -> Any:
    try:
        let_default_stream_wait(rebuild_event(block))
    except BaseException:
        rebuild(*arguments)  # consumes the tickets: what the message carried is freed
        raise
    made = rebuild(*arguments)
    made.data_ptr()  # marks it as exposed: copies, sends and releases wait for the default stream, too
    return made
