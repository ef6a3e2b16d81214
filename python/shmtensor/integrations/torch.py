"""torch: tensors travel as handles, in our queues; the workers of a DataLoader collate into shared memory.

The integration replaces torch's two reducers, of tensors and of storages, and calls them for what it does
not handle; in transports with picklers of their own (joblib, loky, multiprocess) such objects go by value,
since torch's reducers would need torch's descriptors. In a process one block is one torch storage: that
holds the block, which knows the storage by torch's weak pointer, since a weak reference of Python may
outlive what it refers to in some versions of torch. Views of one private storage in a message share memory
in the receiver, so the whole storage is copied, once for each message: the pickler's memo keeps an
`OutgoingBytes`, and on a GPU the storage itself. Small views of a large one are the exception (`_SMALL`).
docs/guide/with-torch.md describes the behaviour.
"""

from __future__ import annotations

import pickle
from typing import Any

import torch.multiprocessing
from torch.multiprocessing import reductions

from shmtensor import reducers  # noqa: F401 - a storage is sent by its reducer
from shmtensor._reducer_tables import FORKING
from shmtensor.integrations._server_method import ServerMethod
from shmtensor.integrations._tables import ReducerTable
from shmtensor.integrations._torch import collate, items, loading, pinning, sharing, transports
from shmtensor.integrations._torch.reducers import Reducers

__all__ = ["install", "uninstall"]

_reducers = ReducerTable()
_PARTS: tuple[Any, ...] = (
    *(collate, items, loading, pinning, sharing),
    *(ServerMethod(torch.multiprocessing), transports),
)


def install(alias: bool = False, cuda: bool = False) -> None:
    """Replace torch's reducers, collating, loading, sharing and queues; add a start method."""
    if alias and not sharing.can_move():
        msg = f"alias=True needs UntypedStorage._swap_data_ptr_, which torch {torch.__version__} lacks"
        raise RuntimeError(msg)
    ours = Reducers(alias, cuda, reductions.reduce_tensor, reductions.reduce_storage).by_torchs
    elsewhere = Reducers(alias, cuda, _by_value, _by_value).by_torchs
    for kind, reducer in list(FORKING.items()):
        if reducer in ours:
            _reducers.register(kind, ours[reducer], elsewhere[reducer])
    for part in _PARTS:
        part.install()


def uninstall() -> None:
    """Restore them."""
    _reducers.clear()
    for part in reversed(_PARTS):
        part.uninstall()


def _by_value(obj: Any) -> Any:
    return obj.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
