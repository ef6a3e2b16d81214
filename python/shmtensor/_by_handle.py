"""Objects that another process receives as the same ones."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any, SupportsIndex


class SentByHandle:
    """An object that another process receives as the same one, not as a copy.

    The picklers of `multiprocessing` send it by its storage; `pickle` and `copy` refuse it. As in the
    standard library, a subclass sends what its `__getstate__` adds, and no other attributes.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        ForkingPickler.register(cls, _reduce)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise RuntimeError(
            f"{type(self).__name__} objects should only be shared between processes through inheritance, "
            "a queue, a pipe or publish, not by pickle or copy"
        )

    def __getstate__(self) -> Any:
        return (self._storage,)  # type: ignore[attr-defined]

    def __setstate__(self, state: Any) -> None:
        self._open(*state)

    def _open(self, storage: Any) -> None:
        """Begin to use the storage, which is new or was received; `__getstate__` returns the arguments."""
        super().__init__(storage)  # type: ignore[call-arg]


def _reduce(sent: SentByHandle) -> Any:
    return object.__reduce_ex__(sent, 2)
