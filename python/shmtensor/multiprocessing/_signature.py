"""The type of `spawn` and `start_processes`: their result depends on `join`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.multiprocessing._spawn.settings import Affinity, Environments
    from shmtensor.multiprocessing.process_context import ProcessContext

    Args = tuple[Any, ...] | list[Any]


class Start(Protocol):
    """Starts workers; waits for them if `join` is true, else returns their context."""

    __name__: str

    @overload
    def __call__(
        self,
        fn: Callable[..., Any],
        args: Args = ...,
        nprocs: int = ...,
        join: Literal[True] = ...,
        daemon: bool = ...,
        start_method: str = ...,
        *,
        env: Environments = ...,
        affinity: Affinity = ...,
        prefix_output: bool | str = ...,
    ) -> None: ...
    @overload
    def __call__(
        self,
        fn: Callable[..., Any],
        args: Args = ...,
        nprocs: int = ...,
        *,
        join: Literal[False],
        daemon: bool = ...,
        start_method: str = ...,
        env: Environments = ...,
        affinity: Affinity = ...,
        prefix_output: bool | str = ...,
    ) -> ProcessContext: ...
    @overload
    def __call__(
        self,
        fn: Callable[..., Any],
        args: Args,
        nprocs: int,
        join: Literal[False],
        daemon: bool = ...,
        start_method: str = ...,
        *,
        env: Environments = ...,
        affinity: Affinity = ...,
        prefix_output: bool | str = ...,
    ) -> ProcessContext: ...
    @overload
    def __call__(
        self,
        fn: Callable[..., Any],
        args: Args = ...,
        nprocs: int = ...,
        join: bool = ...,
        daemon: bool = ...,
        start_method: str = ...,
        *,
        env: Environments = ...,
        affinity: Affinity = ...,
        prefix_output: bool | str = ...,
    ) -> ProcessContext | None: ...


def typed(function: Callable[..., ProcessContext | None]) -> Start:
    """Return the function itself, which type checkers take for a `Start`."""
    return function  # type: ignore[return-value]
