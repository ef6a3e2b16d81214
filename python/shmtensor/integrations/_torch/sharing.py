"""`share_memory_` and `is_shared` of torch's storages, with blocks."""

from __future__ import annotations

from typing import Any

import torch

from shmtensor.integrations._replacements import Replacements
from shmtensor.integrations._torch.storages import CPU, block_of, is_shared_by_torch, move

_Storage: Any = torch.UntypedStorage
_share_memory_ = _Storage.share_memory_
_replaced = Replacements()
uninstall = _replaced.restore  # storages that were moved remain in their blocks


def can_move() -> bool:
    """Return True if this version of torch can move a storage to other memory."""
    return hasattr(_Storage, "_swap_data_ptr_")


def install() -> None:
    """Let `share_memory_` move storages, and with them tensors and modules, into blocks."""
    _replaced.set(_Storage, "is_shared", is_shared)
    if can_move():
        _replaced.set(_Storage, "share_memory_", share_memory_)


def is_shared(storage: torch.UntypedStorage) -> bool:
    """Return True if other processes may have the storage's memory."""
    return is_shared_by_torch(storage) or (storage.device == CPU and block_of(storage) is not None)


def share_memory_(storage: torch.UntypedStorage, *args: Any, **options: Any) -> torch.UntypedStorage:
    """Move a storage into a block, unless it is shared already."""
    if storage.device != CPU or storage.nbytes() == 0:
        return _share_memory_(storage, *args, **options)
    if not is_shared(storage):
        move(storage)
    return storage
