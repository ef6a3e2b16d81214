"""Collating in workers of a DataLoader: batches are stacked into blocks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils.collate import collate, collate_tensor_fn, default_collate_fn_map

import shmtensor._core as _core
from shmtensor.integrations._torch.reducers import is_plain, rebuild_whole
from shmtensor.tensor import Tensor


def install() -> None:
    """Use these functions in `torch.utils.data.default_collate`."""
    default_collate_fn_map[torch.Tensor] = _collate_tensors
    default_collate_fn_map[Tensor] = _collate_shared_tensors


def uninstall() -> None:
    """Use torch's functions."""
    default_collate_fn_map[torch.Tensor] = collate_tensor_fn
    default_collate_fn_map.pop(Tensor, None)


def _collate_tensors(batch: Any, *, collate_fn_map: Any = None) -> Any:
    first = batch[0]
    if get_worker_info() is None or type(first) is not torch.Tensor or not is_plain(first):
        return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
    size = (len(batch), *first.size())
    nbytes = math.prod(size) * first.element_size()
    if nbytes == 0:
        return torch.stack(batch)
    block = _core.new_storage(nbytes, False)
    return torch.stack(batch, 0, out=rebuild_whole(block, first.dtype, size))


def _collate_shared_tensors(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return collate([torch.from_dlpack(tensor) for tensor in batch], collate_fn_map=collate_fn_map)
