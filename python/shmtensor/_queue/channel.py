"""What queues, broadcasts and the readers of broadcasts have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from shmtensor._queue.errors import ShutDown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

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
