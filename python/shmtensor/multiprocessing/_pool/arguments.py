"""The pickler of tasks: a large argument that is the same in many tasks is copied once."""

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor._fork import reset_in_forked_children
from shmtensor._pickling import ByNamePickler, copy_for_one
from shmtensor._threshold import is_large

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor._pickling import MessagePickler
    from shmtensor.storage import Storage


class Repeated:
    """The memory that the tasks of a pool have had as arguments, with a copy of what they had more than once.

    What is sent for the first time becomes memory of its task alone: most arrays are sent once. For the
    second time, another copy is made, which all further tasks use while the memory exists and has the same
    bytes. Each of them maps it privately, so that it can write.
    """

    def __init__(self) -> None:
        # By the object that owns the memory, its address and size.
        self._copies: dict[tuple[int, int, int], tuple[weakref.ref[Any], Storage | None]] = {}
        reset_in_forked_children(self)

    def place(self, raw: memoryview) -> Any:
        """Return what is sent for a buffer; None: it stays in the pickle."""
        if not is_large(raw.nbytes):
            return None
        block = self._copy_of(raw)
        if block is None:
            return copy_for_one(raw)
        from shmtensor.tensor import Tensor

        return Tensor(block, "uint8", (raw.nbytes,), readonly=True) if raw.readonly else _Private(block)

    def _copy_of(self, raw: memoryview) -> Storage | None:
        import numpy as np  # not in a program that sends no arrays

        from shmtensor._copies import equal, owner_of
        from shmtensor._layout import address_of

        content = np.frombuffer(raw, np.uint8)
        owner = owner_of(content)
        if isinstance(owner, _core.PrivateView):  # of a task that starts a pool
            block: Storage = owner.storage
            return block if equal(memoryview(block), content) else None
        key = id(owner), address_of(content), content.nbytes
        known, copy = self._copies.get(key, (None, None))
        if known is None or known() is not owner:
            copy = None
        elif copy is None:
            copy = _core.copy_of_buffer(raw)
        elif not equal(memoryview(copy), content):
            copy = None  # it may be a buffer that is filled for each task
        with suppress(TypeError):  # bytes, for example, have no weak references
            # The reference, which is the callback's argument, is the default of `pop`.
            self._copies[key] = weakref.ref(owner, partial(self._copies.pop, key)), copy
        return copy

    def clear(self) -> None:
        """Release the copies; also breaks the cycle with the references to the memory."""
        self._copies.clear()

    reset_in_child = clear


class _Private:
    """A block, of which the receiver of a message has private memory."""

    def __init__(self, block: Storage) -> None:
        self._block = block
        self.nbytes = block.nbytes

    def __reduce__(self) -> Any:
        from shmtensor._copies import private_view

        return private_view, (self._block,)


def pickler_of_tasks(method: str, repeated: Repeated) -> Callable[[], MessagePickler]:
    """Return what makes picklers of tasks for workers of a start method."""
    if method != "server":
        return partial(ByNamePickler, repeated.place)
    from shmtensor.multiprocessing._by_value.reducer import ByValuePickler  # not in the pages of each fork

    return partial(ByValuePickler, repeated.place)
