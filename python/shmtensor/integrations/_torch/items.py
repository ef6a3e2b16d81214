"""Torch's tensors as items of `SharedList` and `SharedDict`: their bytes are beside the pickle, not in it."""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch.nn.parameter import Parameter

from shmtensor._layout import bytes_at
from shmtensor.containers._writer import item_reducers
from shmtensor.integrations._torch.reducers import is_plain, rebuild_tensor, span_of
from shmtensor.integrations._torch.storages import over_bytes

_KINDS = (torch.Tensor, Parameter)


def install() -> None:
    """Use the reducer for containers that are built from now on."""
    item_reducers.update(dict.fromkeys(_KINDS, _reduce_item))


def uninstall() -> None:
    """Let torch pickle the items."""
    for kind in _KINDS:
        item_reducers.pop(kind, None)


def _reduce_item(tensor: torch.Tensor) -> Any:
    if not is_plain(tensor) or not tensor.is_leaf or tensor.numel() == 0:
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    if tensor._backward_hooks:
        torch.utils.hooks.warn_if_has_hooks(tensor)
    size, stride = tuple(tensor.size()), tensor.stride()
    content: Any = bytes_at(tensor, tensor.data_ptr(), span_of(size, stride) * tensor.element_size())
    view = tensor.dtype, size, stride, tensor.requires_grad, type(tensor) is Parameter
    return rebuild_item, (pickle.PickleBuffer(content), *view)


def rebuild_item(  # noqa: PLR0917  # a pickle has no keywords
    content: Any,
    dtype: torch.dtype,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    is_parameter: bool,
) -> torch.Tensor:
    """Return a tensor over the bytes of an item, which must not be written: they are mapped read-only."""
    return rebuild_tensor(over_bytes(content), dtype, size, stride, 0, requires_grad, is_parameter)
