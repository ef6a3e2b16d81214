"""What queues, broadcasts and the readers of broadcasts have in common."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar

from shmtensor._queue.errors import ShutDown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Item", "Readable", "SentByHandle", "Writable"]

Item = TypeVar("Item")


class _Closable:
    """An object that the end of a ``with`` block closes in this process."""

    __slots__ = ()

    if TYPE_CHECKING:

        def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Writable(_Closable, Generic[Item]):
    """The writing end of a channel. Its methods are those of the extension, which does not know `Item`."""

    __slots__ = ()

    if TYPE_CHECKING:

        def put(self, item: Item, block: bool = True, timeout: float | None = None) -> None: ...
        def put_nowait(self, item: Item, /) -> None: ...


class Readable(_Closable, Generic[Item]):
    """The reading end of a channel, as `Writable`."""

    __slots__ = ()

    if TYPE_CHECKING:

        def get(self, block: bool = True, timeout: float | None = None) -> Item: ...
        def get_nowait(self) -> Item: ...

    def __iter__(self) -> Iterator[Item]:
        """Yield items until the channel is shut down and all were read."""
        while True:
            try:
                item = self.get()
            except ShutDown:
                return
            yield item
            del item  # not kept while the next `get` waits


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
        super().__init__(*state)


def _reduce(sent: SentByHandle) -> Any:
    return object.__reduce_ex__(sent, 2)
