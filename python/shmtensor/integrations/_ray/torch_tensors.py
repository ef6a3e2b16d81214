"""The transport of torch's CPU tensors, registered when Ray and torch are imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from shmtensor._copies import private_view
from shmtensor.integrations._ray.transport import Transport, by_value
from shmtensor.integrations._torch.reducers import is_plain, rebuild_storage, rebuild_tensor, span_of
from shmtensor.integrations._torch.storages import block_of, copy_of, over_bytes

if TYPE_CHECKING:
    from shmtensor.integrations._ray.transport import Part
    from shmtensor.storage import Storage


class TorchTransport(Transport):
    """Private memory is copied once, and each receiver has a private view of it; a block is shared."""

    name = "SHMTENSOR"
    kind = torch.Tensor

    def reduce(self, tensor: torch.Tensor) -> Part:
        if not is_plain(tensor) or tensor.numel() == 0:
            return by_value(tensor)
        size, stride = tuple(tensor.size()), tensor.stride()
        view = tensor.dtype, size, stride, tensor.requires_grad
        nbytes = span_of(size, stride) * tensor.element_size()
        storage = tensor.untyped_storage()
        block = block_of(storage)
        if block is None:
            first = tensor.storage_offset() * tensor.element_size()
            return _over_private_view, (copy_of(storage, first, nbytes), *view)
        return _over_block, (block, tensor.data_ptr() - block.data_ptr(), nbytes, *view)


install, uninstall = TorchTransport.register, TorchTransport.unregister


def _over_private_view(
    block: Storage, dtype: torch.dtype, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> torch.Tensor:
    return rebuild_tensor(over_bytes(private_view(block)), dtype, size, stride, 0, requires_grad)


def _over_block(block: Storage, first: int, nbytes: int, *view: Any) -> torch.Tensor:
    dtype, size, stride, requires_grad = view
    return rebuild_tensor(rebuild_storage(block, first, nbytes), dtype, size, stride, 0, requires_grad)
