"""Reducers of torch's tensors and storages; torch's own ones reduce what is not plain CPU memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch.multiprocessing import reductions
from torch.nn.parameter import Parameter

import shmtensor._core as _core
from shmtensor.integrations._torch.storages import CPU, block_of, copy_of, move, over_block, over_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Reducers", "is_plain", "rebuild_storage", "rebuild_tensor", "span_of"]

# A view is sent with its whole storage, which its other views in the message then share in the receiver. But
# not with a private storage that is larger than this and than two such views, unless the message has it
# already: an item of a data set would take the whole set along.
_SMALL = 64 * 1024


def is_plain(tensor: torch.Tensor) -> bool:
    """Return True for a tensor whose elements are dense bytes in host memory, as its dtype describes them."""
    return (
        tensor.is_cpu
        and tensor.layout is torch.strided
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
    )


def span_of(size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Return the number of elements from a tensor's first to its last, with those between that it skips."""
    return 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


class _Whole:
    """A storage that a message has: pickles as the storage, and lives in the pickler's memo until its end."""

    __slots__ = ("__weakref__", "_storage")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._storage = storage

    def __reduce__(self) -> Any:
        return _itself, (self._storage,)


def _itself(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    return storage


class _Wholes(threading.local):
    """The storages of the messages that this thread is pickling, by their addresses."""

    def __init__(self) -> None:
        self.known: WeakValueDictionary[int, _Whole] = WeakValueDictionary()


_wholes = _Wholes()


class Reducers:
    """The two reducers, with the option of the integration.

    Parameters
    ----------
    alias
        Private storages move into shared memory when they are sent, instead of being copied.
    other_tensor, other_storage
        Reduce what is not plain CPU memory, and what torch itself has shared.
    """

    def __init__(
        self, alias: bool, other_tensor: Callable[[Any], Any], other_storage: Callable[[Any], Any]
    ) -> None:
        self._alias = alias
        self._other_tensor = other_tensor
        self._other_storage = other_storage
        self.by_torchs = {
            reductions.reduce_tensor: self.reduce_tensor,
            reductions.reduce_storage: self.reduce_storage,
        }

    def reduce_tensor(self, tensor: torch.Tensor) -> Any:
        """Reduce a tensor to a storage, a dtype, and a shape."""
        requires_grad = tensor.requires_grad
        if not is_plain(tensor) or (requires_grad and not tensor.is_leaf):
            return self._other_tensor(tensor)
        if tensor._backward_hooks:
            torch.utils.hooks.warn_if_has_hooks(tensor)
        size, stride, offset = tuple(tensor.size()), tensor.stride(), tensor.storage_offset()
        storage, start = self._storage_to_send(tensor, size, stride, offset)
        view = storage, tensor.dtype, size, stride, offset - start
        is_parameter = type(tensor) is Parameter
        if requires_grad or is_parameter:
            return rebuild_tensor, (*view, requires_grad, is_parameter)
        return rebuild_tensor, view

    def _storage_to_send(
        self, tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int
    ) -> tuple[torch.UntypedStorage | _Whole, int]:
        """Return what is sent as a tensor's storage, and where it begins in the real one, in elements."""
        storage = tensor.untyped_storage()
        nbytes, itemsize = storage.nbytes(), tensor.element_size()
        block = block_of(storage)
        if block is not None:
            start, rest = divmod(block.data_ptr() - storage.data_ptr(), itemsize)
            return (storage, 0) if rest else (over_block(block), start)
        if nbytes <= _SMALL or self._alias or storage.is_shared():
            return storage, 0
        whole = _wholes.known.get(storage._cdata)
        if whole is None:
            count = span_of(size, stride)
            if count == 0:
                return torch.UntypedStorage(0), offset
            if 2 * count * itemsize < nbytes:
                return over_block(copy_of(storage, offset * itemsize, count * itemsize)), offset
            whole = _wholes.known[storage._cdata] = _Whole(storage)
        return whole, 0

    def reduce_storage(self, storage: torch.UntypedStorage) -> Any:
        """Reduce a storage to its block."""
        if storage.device != CPU:
            return self._other_storage(storage)
        nbytes = storage.nbytes()
        if nbytes == 0:
            return torch.UntypedStorage, (0,)
        block = block_of(storage)
        if block is None:
            if storage.is_shared():  # by torch: its other processes must see the same memory
                return self._other_storage(storage)
            block = move(storage) if self._alias else copy_of(storage, 0, nbytes)
            first = 0
        else:
            first = storage.data_ptr() - block.data_ptr()
        # The handle alone takes less time than the object, which a file's storage needs.
        sent = block if block.filename is not None else _core.reduce_storage(block)[1][0]
        return rebuild_storage, (sent,) if nbytes == block.nbytes else (sent, first, nbytes)


def rebuild_storage(sent: Any, first: int = 0, nbytes: int | None = None) -> torch.UntypedStorage:
    """Return the torch storage over a block, or over some of its bytes."""
    block = _core.rebuild_storage(sent) if isinstance(sent, bytes) else sent
    return over_block(block) if nbytes is None else over_bytes(memoryview(block)[first : first + nbytes])


def rebuild_tensor(  # noqa: PLR0917  # a pickle has no keywords
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    size: tuple[int, ...],
    stride: tuple[int, ...] = (),
    offset: int = 0,
    requires_grad: bool = False,
    is_parameter: bool = False,
) -> torch.Tensor:
    """Return a tensor over a storage, contiguous without strides."""
    tensor = torch.empty(0, dtype=dtype, device=CPU).set_(storage, offset, size, stride)
    if is_parameter:  # the constructor, since only floating-point parameters may require a gradient
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor
