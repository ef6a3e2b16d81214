"""Queues of a `DataLoader`: those of `shmtensor.multiprocessing`, by the start method that torch would use.

Batches that are not fetched are freed with their queue, as soon as a loop has left its loader. A killed
worker holds no lock for which the others wait.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import context as std
from typing import Any

from torch.utils.data import dataloader

from shmtensor.integrations._replacements import Replacements

__all__ = ["install", "uninstall"]

_Iterator = dataloader._MultiProcessingDataLoaderIter
_init = _Iterator.__init__
_replaced = Replacements()


def install() -> None:
    """Use these queues in iterators that are made from now on."""
    _replaced.set(_Iterator, "__init__", _begin)


def uninstall() -> None:
    """Use torch's queues."""
    _replaced.restore()


class _Loader:
    """A loader with another context. Its own remains as the program has set it."""

    def __init__(self, loader: Any, context: Any) -> None:
        self._loader = loader
        self.multiprocessing_context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _begin(iterator: Any, loader: Any) -> None:
    _init(iterator, _Loader(loader, _with_queues(loader.multiprocessing_context)))


def _with_queues(context: Any) -> Any:
    """Return our context of the same start method; one of another library, or a subclass, itself."""
    from shmtensor.multiprocessing import context as ours  # late, since few processes have a loader

    if context is None:
        context = multiprocessing.get_context()
    if type(context) is std.DefaultContext:
        context = context.get_context()
    # By class, since `get_context` refuses to fork where CUDA is initialised: workers that do not use it may.
    known = {
        std.ForkContext: ours.ForkContext,
        std.SpawnContext: ours.SpawnContext,
        std.ForkServerContext: ours.ForkServerContext,
    }
    kind = known.get(type(context))
    return context if kind is None else kind()
