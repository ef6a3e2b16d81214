"""Queues of a `DataLoader`: those of `shmtensor.multiprocessing`, by the start method that torch would use.

Batches that are not fetched are freed with their queue, as soon as a loop has left its loader. A killed
worker holds no lock for which the others wait.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import dataloader

from shmtensor.integrations._replacements import Replacements
from shmtensor.integrations._torch.transports import our_context

_Iterator = dataloader._MultiProcessingDataLoaderIter
_init = _Iterator.__init__
_replaced = Replacements()
uninstall = _replaced.restore


def install() -> None:
    """Use these queues in iterators that are made from now on."""
    _replaced.set(_Iterator, "__init__", _begin)


class _Loader:
    """A loader with another context. Its own remains as the program has set it."""

    def __init__(self, loader: Any, context: Any) -> None:
        self._loader = loader
        self.multiprocessing_context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _begin(iterator: Any, loader: Any) -> None:
    _init(iterator, _Loader(loader, our_context(loader.multiprocessing_context)))
