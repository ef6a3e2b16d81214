"""Blocks of torch's storages, and torch's storages over blocks."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import torch

import shmtensor._core as _core
from shmtensor._copies import equal, owner_of, private_bytes
from shmtensor._dlpack import DEFAULT_STREAM, UNSIGNED
from shmtensor._fork import RenewedLock
from shmtensor._layout import address_of, bytes_at
from shmtensor.creation import asarray
from shmtensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from shmtensor.storage import Storage

CPU = torch.device("cpu")

_moving = RenewedLock(threading.Lock)

_exported: WeakValueDictionary[int, Storage] = WeakValueDictionary()
"""By address: memory of torch on a GPU, which the process that allocated it has exported where it is."""

_private_views: WeakValueDictionary[int, _core.PrivateView] = WeakValueDictionary()
"""By address: where a torch storage begins in a private view."""

_core.register_peers(torch.UntypedStorage._new_with_weak_ptr, torch.UntypedStorage._free_weak_ref)


def block_of(storage: torch.UntypedStorage) -> Storage | None:
    """Return the block in which the bytes of a torch storage are stored, None for any other memory."""
    block = _core.storage_at(storage.data_ptr(), storage.nbytes())
    return _exported.get(storage.data_ptr()) if block is None and storage.is_cuda else block


# In any memory, also with the method replaced.
is_shared_by_torch: Callable[[torch.UntypedStorage], bool] = torch.UntypedStorage.is_shared


def copy_of(storage: torch.UntypedStorage, first: int, nbytes: int) -> Storage:
    """Return a new block with a copy of some bytes of a torch storage, on the same device."""
    if storage.is_cuda:
        return _copy_on_gpu(storage, first, nbytes)
    block = _core.new_storage(nbytes, False)
    ctypes.memmove(block.data_ptr(), storage.data_ptr() + first, nbytes)  # releases the GIL
    return block


def _copy_on_gpu(storage: torch.UntypedStorage, first: int, nbytes: int) -> Storage:
    # As `asarray` does, without the descriptions that torch would make of a tensor.
    device, address = storage.device.index, storage.data_ptr() + first
    stream = _current_stream(device)
    if stream:
        _core.cuda_join_stream(device, address, stream)
    _core.cuda_wait_for_stream(device, address, DEFAULT_STREAM)
    block = _core.cuda_new_storage(nbytes, device, False)
    _core.cuda_copy(
        _tensor_over(block, 0, nbytes), _tensor_over(_core.cuda_borrow(address, nbytes, device), 0, nbytes)
    )
    return block


def over_block(block: Storage) -> torch.UntypedStorage:
    """Return the torch storage over all bytes of a block; the same one as long as a tensor uses it."""
    known: torch.UntypedStorage | None = _core.peer_of(block)
    if known is not None and known.data_ptr() == block.data_ptr() and known.nbytes() == block.nbytes:
        if known.is_cuda:
            _let_current_stream_wait(known.device.index)
        return known
    made = over_part(block, 0, block.nbytes)
    if not block.readonly:
        _core.set_peer(block, made._weak_ref())
    return made


def over_part(block: Storage, first: int, nbytes: int) -> torch.UntypedStorage:
    """Return a torch storage over some bytes of a block, which it keeps alive; see `over_bytes`."""
    if _core.device_number(block) < 0:
        return over_bytes(memoryview(block)[first : first + nbytes])
    made = _from_dlpack(_tensor_over(block, first, nbytes)).untyped_storage()
    if _core.storage_at(made.data_ptr(), nbytes) is None and first == 0:
        _exported[made.data_ptr()] = block
    return made


def _from_dlpack(tensor: Tensor) -> torch.Tensor:
    if tensor.readonly:  # torch decides whether it takes a capsule that marks it
        return torch.from_dlpack(tensor)
    made: torch.Tensor = torch.from_dlpack(_core.to_dlpack(tensor, UNSIGNED, False))
    _let_current_stream_wait(made.device.index)
    return made


def _let_current_stream_wait(device: int) -> None:
    # For the default stream, which waits for the sender's work.
    stream = _current_stream(device)
    if stream and torch.cuda.is_current_stream_capturing():  # the caller waits instead
        _core.cuda_wait_for_stream(device, 0, DEFAULT_STREAM)
    elif stream:
        _core.cuda_order_streams(device, DEFAULT_STREAM, stream)


def over_bytes(content: Any) -> torch.UntypedStorage:
    """Return a torch storage over an object that has the buffer protocol, which it keeps alive.

    torch has no read-only tensors, and a write to memory that is mapped read-only would end the process by
    SIGSEGV. So bytes of a read-only block are private here: the kernel copies a page when it is written.
    """
    view = memoryview(content)
    if not view.readonly:
        return torch.frombuffer(content, dtype=torch.uint8).untyped_storage()
    array = np.frombuffer(content, np.uint8)
    if (private := private_bytes(array)) is None:
        made = torch.from_numpy(bytes_at(array, address_of(array), array.nbytes))  # `frombuffer` would warn
        return made.untyped_storage()
    storage = over_bytes(private.data)
    if isinstance(owner := owner_of(private), _core.PrivateView):
        _private_views[storage.data_ptr()] = owner
    return storage


def part_of(storage: torch.UntypedStorage) -> tuple[Storage, int] | None:
    """Return the block that has the bytes of a torch storage, and where they begin there; None if none has.

    Of a private view, it is the block, unless this process has changed the bytes.
    """
    address, nbytes = storage.data_ptr(), storage.nbytes()
    if (known := block_of(storage)) is not None:
        return known, address - known.data_ptr()
    if (view := _private_views.get(address)) is None:
        return None
    block, first = view.storage, address - address_of(np.frombuffer(memoryview(view), np.uint8))
    same = equal(
        memoryview(block)[first : first + nbytes], np.frombuffer(bytes_at(view, address, nbytes), np.uint8)
    )
    return (block, first) if same else None


def move(storage: torch.UntypedStorage) -> Storage:
    """Move the bytes of a torch storage, with every tensor over it, into a block; return the block."""
    with _moving():
        block = block_of(storage)
        if block is None:
            block = copy_of(storage, 0, storage.nbytes())
            storage._swap_data_ptr_(over_bytes(block))
            _core.set_peer(block, storage._weak_ref())
        return block


def export(storage: torch.UntypedStorage) -> Storage:
    """Return a block that is the memory of a torch storage on a GPU.

    Raises
    ------
    ValueError
        If that memory cannot be exported.
    """
    block = asarray(_bytes_of(storage, 0, storage.nbytes()), copy=False).storage()
    _exported[storage.data_ptr()] = block
    return block


def _tensor_over(block: Storage, first: int, nbytes: int) -> Tensor:
    return Tensor(block, np.uint8, (nbytes,), (1,), first)


def _current_stream(device: int) -> int:
    """Return the stream that torch uses in this thread, 0 for the default one."""
    stream: int = torch._C._cuda_getCurrentRawStream(device)
    return stream


def _bytes_of(storage: torch.UntypedStorage, first: int, nbytes: int) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, first, (nbytes,))
