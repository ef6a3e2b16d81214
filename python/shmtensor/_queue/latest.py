"""Latest: the newest value, for any number of processes that read when they like."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

import shmtensor._core as _core
import shmtensor._queue.queue  # noqa: F401 - registers the exceptions and the picklers
from shmtensor._by_handle import SentByHandle
from shmtensor._queue.channel import Item
from shmtensor._queue.labels import label_or_place
from shmtensor._tasks import wait_in_thread
from shmtensor._values import check_integer
from shmtensor.creation import empty_like
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


class Latest(SentByHandle, _core.LatestBase, Generic[Item]):
    """The newest of the values that processes set, in shared memory.

    A reader never waits for a writer: it gets the newest whole value, also if that was set before the reader
    began. Values in between are missed. Any process may set and get; it travels as a `Queue` does.

    A value is held once for all processes, as a message of a `Broadcast`. A tensor in it is a handle: do not
    write into it after `set`, but into the memory that `next` gives. Any other object is pickled once, and
    its buffers of at least 64 KiB are copied once, into shared memory that no reader can write. A value is
    freed when it is not the newest any more and no process has it.

    A process may be killed at any time: the value that it was about to set is lost, and nothing else.

    Parameters
    ----------
    value
        The first value; None: none is set.
    label
        As for `Queue`.

    Raises
    ------
    OutOfSharedMemory
        If there is not enough memory.

    See Also
    --------
    Broadcast : each value to all readers.
    shmtensor.publish : an object by name, which changes rarely.

    Examples
    --------
    >>> import shmtensor as st
    >>> weights = st.Latest({"w": st.zeros(3)})
    >>> with weights.next() as tree:
    ...     tree["w"][:] = 1
    >>> weights.get()["w"].numpy(), weights.version
    (array([1., 1., 1.]), 2)
    """

    __slots__ = ("_newest",)

    def __init__(self, value: Item | None = None, *, label: str | None = None) -> None:
        self._open(_core.new_broadcast_storage(1, 0, "keep_newest", label_or_place(label)))
        if value is not None:
            self.set(value)

    def _open(self, storage: Any) -> None:
        super()._open(storage)
        self._newest: tuple[int, Any] = (0, None)  # one object, so that another thread sees both or neither

    @property
    def received(self) -> int:
        """The `version` of the value that `get` returned last through this object; 0: none."""
        return self._newest[0]

    def get(self, after: int | None = None, timeout: float | None = None) -> Item:
        """Return the newest value; None if none was set.

        Through one object, it is the same object until a newer one was set.

        Parameters
        ----------
        after
            Wait until a value after this `version` was set. ``latest.get(after=latest.received)`` waits for
            one that was not returned yet.
        timeout
            Seconds to wait; None: no limit.

        Raises
        ------
        TimeoutError
            If none was set within the timeout.
        StaleHandleError
            If the value was lost: the manager was killed together with all processes that had its memory.
        """
        after = None if after is None else check_integer("after", after)
        newest = self._newest
        version = self.version
        if newest[0] != version and (after is None or after < version):
            after, timeout = version - 1, None  # it is there
        elif after is None or newest[0] > after:
            return newest[1]  # type: ignore[no-any-return]
        newer = self._newer(after, timeout)
        if newer is None:
            msg = f"no value after version {after} was set within {timeout} s"
            raise TimeoutError(msg)
        self._newest = newer
        return newer[1]  # type: ignore[no-any-return]

    async def aget(self, after: int | None = None) -> Item:
        """Return what `get` returns; the event loop runs other tasks meanwhile. A thread waits for it."""
        if after is not None and self.version <= after:
            await wait_in_thread(lambda seconds: self._wait(after, seconds), lambda: None)
        return self.get(after)

    def _wait(self, after: int, seconds: float) -> bool:
        try:
            self.get(after, seconds)
        except TimeoutError:
            return False
        return True

    @contextmanager
    def next(self) -> Iterator[Item]:
        """Give memory for the next value, which is set at the end of the ``with`` block.

        The value has the structure of the newest one: dicts, lists and tuples with new, uninitialized tensors
        and arrays in place of its own, often in the memory of a value that no process has any more. Other
        objects are the same. An exception in the block sets nothing.

        Raises
        ------
        ValueError
            If no value was set.
        OutOfSharedMemory
            If there is not enough memory.
        """
        if self.version == 0:
            raise ValueError("next() makes a value like the newest one, and none was set: call set() first")
        value = _like(self.get())
        yield value
        self.set(value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: version {self.version}>"


def _like(value: Any) -> Any:
    """Return a value with uninitialized tensors and arrays in shared memory in place of those of `value`."""
    if isinstance(value, Tensor):
        return empty_like(value)
    if isinstance(value, np.ndarray):
        is_shareable = type(value) is np.ndarray and not value.dtype.hasobject
        return empty_like(value).numpy() if is_shareable else np.empty_like(value)  # which `set` copies
    if isinstance(value, dict):
        made = value.copy()  # of the same class
        for key, item in value.items():
            made[key] = _like(item)
        return made
    if isinstance(value, (list, tuple)):
        items = map(_like, value)
        return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
    kind: Any = getattr(sys.modules.get("torch"), "Tensor", None)
    if kind is not None and isinstance(value, kind):
        return value.new_empty(value.shape).share_memory_()
    return value
