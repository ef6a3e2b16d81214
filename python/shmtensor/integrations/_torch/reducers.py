"""Reducers of torch's tensors and storages; torch's own ones reduce what these do not."""

from __future__ import annotations

from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing import reductions
from torch.nn.parameter import Parameter

import shmtensor._core as _core
from shmtensor.integrations._torch.sharing import can_move
from shmtensor.integrations._torch.storages import (
    CPU,
    block_of,
    copy_of,
    export,
    is_shared_by_torch,
    move,
    over_block,
    over_part,
    part_of,
)
from shmtensor.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable

# A view is sent with its whole storage, which its other views in the message then share in the receiver. But
# not with a private storage that is larger than this and than two such views, unless the message has it
# already: an item of a data set would take the whole set along.
_SMALL = 64 * 1024

_WITHOUT_REST = (Storage, _core.OutgoingBytes)  # not a torch storage, of which the tensor may have a part


def is_plain(tensor: torch.Tensor) -> bool:
    """Return True for a tensor whose elements are dense bytes in host memory, as its dtype describes them."""
    return tensor.is_cpu and is_dense(tensor)


def is_dense(tensor: torch.Tensor) -> bool:
    """Return True for a tensor whose elements are dense bytes, as its dtype describes them."""
    return tensor.layout is torch.strided and not (
        tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg()
    )


def span_of(size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Return the number of elements from a tensor's first to its last, with those between that it skips."""
    return 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


class Reducers:
    """The two reducers, with the options of the integration.

    Parameters
    ----------
    alias
        Private storages move into shared memory when they are sent, instead of being copied; on a GPU they
        are exported where they are. Those in host memory always move when a process is started with them, as
        with torch alone: all workers of a DataLoader use one data set.
    cuda
        Send private storages on a GPU, too.
    other_tensor, other_storage
        Reduce memory that is not sent, and what torch itself has shared.
    """

    def __init__(
        self,
        alias: bool,
        cuda: bool,
        other_tensor: Callable[[Any], Any],
        other_storage: Callable[[Any], Any],
    ) -> None:
        self._alias = alias
        self._cuda = cuda
        self._other_tensor = other_tensor
        self._other_storage = other_storage
        self.by_torchs = {
            reductions.reduce_tensor: self.reduce_tensor,
            reductions.reduce_storage: self.reduce_storage,
        }

    def reduce_tensor(self, tensor: torch.Tensor) -> Any:
        """Reduce a tensor to its memory, a dtype, and a shape."""
        requires_grad = tensor.requires_grad
        if not is_dense(tensor) or (requires_grad and not tensor.is_leaf):
            return self._other_tensor(tensor)
        storage, size = tensor.untyped_storage(), tuple(tensor.size())
        if not (tensor.is_cpu or (tensor.is_cuda and self._sends_from_gpu(storage))):
            return self._other_tensor(tensor)
        if requires_grad and tensor._backward_hooks:
            torch.utils.hooks.warn_if_has_hooks(tensor)
        source, start = self._source(tensor, storage)
        is_parameter = type(tensor) is Parameter
        plain = not (requires_grad or is_parameter)
        if (
            plain
            and type(source) in _WITHOUT_REST
            and tensor.nbytes == source.nbytes
            and tensor.is_contiguous()
            and 1 not in size  # whose stride may be any number
        ):
            return rebuild_whole, (source, tensor.dtype, size)
        view = source, tensor.dtype, size, tensor.stride(), tensor.storage_offset() - start
        return rebuild_tensor, view if plain else (*view, requires_grad, is_parameter)

    def _source(self, tensor: torch.Tensor, storage: torch.UntypedStorage) -> tuple[Any, int]:
        """Return what is sent as a tensor's storage, and where it begins in the real one, in elements."""
        address, nbytes = storage.data_ptr(), storage.nbytes()
        on_gpu = not tensor.is_cpu
        if (part := part_of(storage)) is not None:
            start, rest = divmod(-part[1], tensor.element_size())
            return (storage, 0) if rest else (part[0], start)
        if nbytes == 0 or (not on_gpu and is_shared_by_torch(storage)):  # torch calls all on a GPU shared
            return storage, 0
        if on_gpu and self._alias:
            return export(storage), 0
        if not on_gpu and self._moves():
            return move(storage), 0
        if nbytes > _SMALL and _core.outgoing_bytes(storage._cdata) is None:
            small = _small_part(tensor, storage)
            if small is not None:
                return small, tensor.storage_offset()
        # The pickler reduces one on a GPU once for a message.
        return storage if on_gpu else _core.outgoing_bytes(storage._cdata, storage, address, nbytes), 0

    def _moves(self) -> bool:
        return self._alias or (get_spawning_popen() is not None and can_move())

    def reduce_storage(self, storage: torch.UntypedStorage) -> Any:
        """Reduce a storage to its memory."""
        if storage.device != CPU:
            return self._reduce_on_gpu(storage) if storage.is_cuda else self._other_storage(storage)
        nbytes = storage.nbytes()
        if nbytes == 0:
            return rebuild_empty, (CPU,)
        if (part := part_of(storage)) is not None:
            return _reduce_shared(storage, *part)
        if is_shared_by_torch(storage):  # its other processes must see the same memory
            return self._other_storage(storage)
        if self._moves():
            return rebuild_storage, (move(storage),)
        return rebuild_storage, (_core.outgoing_bytes(storage._cdata, storage, storage.data_ptr(), nbytes),)

    def _reduce_on_gpu(self, storage: torch.UntypedStorage) -> Any:
        if (part := part_of(storage)) is not None:
            return _reduce_shared(storage, *part)
        if not self._cuda:
            return self._other_storage(storage)
        if storage.nbytes() == 0:
            return rebuild_empty, (storage.device,)
        return rebuild_storage, (export(storage) if self._alias else copy_of(storage, 0, storage.nbytes()),)

    def _sends_from_gpu(self, storage: torch.UntypedStorage) -> bool:
        return self._cuda or block_of(storage) is not None


def _small_part(tensor: torch.Tensor, storage: torch.UntypedStorage) -> Storage | torch.UntypedStorage | None:
    """Return a copy of what a tensor has of a storage; None if it is not less than half of it."""
    count, itemsize = span_of(tuple(tensor.size()), tensor.stride()), tensor.element_size()
    if count == 0:
        return torch.UntypedStorage(0, device=storage.device)
    if 2 * count * itemsize >= storage.nbytes():
        return None
    return copy_of(storage, tensor.storage_offset() * itemsize, count * itemsize)


def _reduce_shared(storage: torch.UntypedStorage, block: Storage, first: int) -> Any:
    nbytes = storage.nbytes()
    return rebuild_storage, (block,) if nbytes == block.nbytes else (block, first, nbytes)


def rebuild_empty(device: torch.device) -> torch.UntypedStorage:
    """Return a torch storage without bytes."""
    return torch.UntypedStorage(0, device=device)


def rebuild_storage(block: Storage, first: int = 0, nbytes: int | None = None) -> torch.UntypedStorage:
    """Return the torch storage over a block, or over some of its bytes."""
    return over_block(block) if nbytes is None else over_part(block, first, nbytes)


def rebuild_whole(block: Storage, dtype: torch.dtype, size: tuple[int, ...]) -> torch.Tensor:
    """Return a contiguous tensor over all bytes of a block."""
    if block.readonly or _core.peer_of(block) is not None or _core.device_number(block) >= 0:
        return rebuild_tensor(block, dtype, size)
    tensor = torch.frombuffer(block, dtype=dtype)
    _core.set_peer(block, tensor.untyped_storage()._weak_ref())
    return tensor if len(size) == 1 else tensor.resize_(size)


def rebuild_tensor(  # noqa: PLR0917  # a pickle has no keywords
    source: Storage | torch.UntypedStorage,
    dtype: torch.dtype,
    size: tuple[int, ...],
    stride: tuple[int, ...] = (),
    offset: int = 0,
    requires_grad: bool = False,
    is_parameter: bool = False,
) -> torch.Tensor:
    """Return a tensor over a block or a torch storage, contiguous without strides."""
    storage = over_block(source) if type(source) is Storage else source
    device = CPU if type(source) is Storage and _core.device_number(source) < 0 else storage.device
    tensor = torch.empty(0, dtype=dtype, device=device).set_(storage, offset, size, stride)
    if is_parameter:  # the constructor, since only floating-point parameters may require a gradient
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor
