"""Pinned batches: `DataLoader(pin_memory=True)` pins shared tensors where they are, and copies none."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.utils.data._utils import pin_memory as loader

import shmtensor._core as _core
from shmtensor._layout import bytes_at
from shmtensor.integrations._replacements import Replacements
from shmtensor.integrations._torch.reducers import is_plain
from shmtensor.integrations._torch.storages import block_of

_replaced = Replacements()
uninstall = _replaced.restore  # tensors that are pinned stay so
_thread = threading.local()

_pin_batch = loader.pin_memory
_pin_tensor: Any = torch.Tensor.pin_memory


def install() -> None:
    """Let data loaders pin the tensors of their workers; elsewhere `pin_memory` copies as before."""
    _replaced.set(loader, "pin_memory", pin_batch)
    _replaced.set(torch.Tensor, "pin_memory", pin_tensor)


def pin_batch(data: Any, device: Any = None) -> Any:
    """Pin the tensors of a batch, in containers and objects that torch's function knows."""
    before = getattr(_thread, "of_loader", False)
    _thread.of_loader = True
    try:
        return _pin_batch(data, device)
    finally:
        _thread.of_loader = before


def pin_tensor(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """Return the tensor over pinned memory: of a data loader's batch the same bytes, else a copy."""
    pinned = _over_pinned(tensor) if getattr(_thread, "of_loader", False) else None
    return _pin_tensor(tensor, *args, **options) if pinned is None else pinned


def _over_pinned(tensor: torch.Tensor) -> torch.Tensor | None:
    if type(tensor) is not torch.Tensor or not is_plain(tensor) or tensor.requires_grad:
        return None
    storage = tensor.untyped_storage()
    block = block_of(storage)
    if block is None or not (address := _core.cuda_pin(block)):
        return None
    first = address + storage.data_ptr() - block.data_ptr()
    pinned = torch.from_numpy(bytes_at(block, first, storage.nbytes())).untyped_storage()
    made = torch.empty(0, dtype=tensor.dtype)
    return made.set_(pinned, tensor.storage_offset(), tensor.size(), tensor.stride())
