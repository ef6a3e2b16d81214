"""Storage: a contiguous region of bytes on a device, shared or private."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any, SupportsIndex
from weakref import WeakValueDictionary

import shmtensor._core as _core
from shmtensor._fork import RenewedLock
from shmtensor._values import check_integer, device_number
from shmtensor.errors import StaleHandleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer, Self

    from shmtensor._backend import Backend

__all__ = ["Storage"]
__dir__ = __all__.copy


class Storage(_core.StorageBase):
    """A contiguous region of bytes; tensors are views of it.

    A new storage is a block of shared memory, uninitialized. The block stays allocated while any process has
    an object that refers to it (a storage, a tensor, an array made from one) or an unread message carries
    it; the process that allocated it may end earlier. Within a process, one block is one Storage object.

    Parameters
    ----------
    nbytes
        Size in bytes; 0 is allowed.
    device
        ``"cpu"``, or a GPU: ``"cuda:0"``; ``"cuda"`` is the first.

    Raises
    ------
    OutOfSharedMemory
        If there is not enough memory; the text names the limit and the remedy.
    CudaUnavailable
        If there is no such GPU in this process.

    See Also
    --------
    Storage.from_file : map a file.
    shmtensor.from_numpy, shmtensor.frombuffer : wrap private memory.

    Notes
    -----
    A Storage has the buffer protocol, one-dimensional bytes: ``memoryview(storage)`` copies nothing and
    keeps the memory alive. Plain `pickle` copies the bytes; `multiprocessing` sends a handle.
    """

    __slots__ = ()

    def __new__(cls, nbytes: SupportsIndex, device: str = "cpu") -> Self:
        number = device_number(device)
        size = check_integer("nbytes", nbytes, 0)
        made: Any = (
            _core.new_storage(size, False) if number < 0 else _core.cuda_new_storage(size, number, False)
        )
        return made  # type: ignore[no-any-return]

    def __init_subclass__(cls) -> None:
        msg = "Storage cannot be subclassed: the subclass would be lost when sent to another process"
        raise TypeError(msg)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        shared: bool = True,
        nbytes: SupportsIndex | None = None,
        *,
        readonly: bool = False,
    ) -> Storage:
        """Map a file.

        Parameters
        ----------
        path
            The file.
        shared
            True: writes reach the file, from every process that receives the storage. Its handle carries
            the path and the file's identity, and the file keeps the memory alive: receiving the storage
            raises `StaleHandleError` if the file was removed, replaced or truncated.
            False: the bytes are read into private memory.
        nbytes
            Size in bytes; None for the whole file. The file is created or extended to this size if it is
            shared and writable.
        readonly
            Map the file read-only; private bytes refuse writes too.

        Raises
        ------
        OSError
            If the file cannot be opened, extended or mapped, or is empty.
        ValueError
            If `nbytes` is not positive, or a file that is read into private memory is smaller.
        """
        place = os.path.join(os.getcwd(), os.fsdecode(path))
        size = None if nbytes is None else check_integer("nbytes", nbytes, 1)
        if not shared:
            with open(place, "rb") as file:
                content = bytearray(file.read(-1 if size is None else size))
            if size is not None and len(content) < size:
                msg = f"file {place} is too small: {len(content)} bytes, expected {size}"
                raise ValueError(msg)
            return _restore_storage(content, readonly)
        storage = _core.storage_from_file(os.fsencode(place), size or 0, readonly)
        return _same_file(storage, *_core.file_identity(storage))

    @property
    def device(self) -> str:
        """Name of the device where the bytes are stored."""
        number = _core.device_number(self)
        return "cpu" if number < 0 else f"cuda:{number}"

    def clone(self) -> Storage:
        """Return a copy in a new block on the same device."""
        return Storage(self.nbytes, self.device).copy_(self)

    __copy__ = clone

    def __deepcopy__(self, memo: object) -> Storage:
        return self.clone()

    def copy_(self, source: Buffer) -> Self:
        """Copy the bytes of `source`, which has the same size, into this storage; return self.

        Raises
        ------
        ValueError
            If the sizes differ, or this storage is read-only.
        """
        content: Any  # a tensor or an array
        if isinstance(source, Storage):
            content = _bytes(source)
        else:
            from numpy import frombuffer

            content = frombuffer(memoryview(source), "uint8")
        if content.size != self.nbytes:
            msg = f"cannot copy {content.size} bytes into a storage of {self.nbytes} bytes"
            raise ValueError(msg)
        _backend_of(self).copy_from(_bytes(self), content)
        return self

    def fill_(self, value: SupportsIndex) -> Self:
        """Set every byte to `value`, 0 to 255; return self.

        Raises
        ------
        ValueError
            If `value` is not in that range, or this storage is read-only.
        """
        byte = check_integer("value", value, 0, 255)
        _backend_of(self).fill(_bytes(self), byte)
        return self

    def tobytes(self) -> bytes:
        """Return a private copy of the bytes."""
        return _backend_of(self).to_host(_bytes(self)).tobytes()

    def __repr__(self) -> str:
        kind = "shared" if self.is_shared() else "private"
        source = f", file {self.filename!r}" if self.filename is not None else ""
        mode = ", read-only" if self.readonly else ""
        return f"<Storage of {self.nbytes} bytes on {self.device}, {kind}{mode}{source}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Storage], tuple[Any, bool]]:
        content = _backend_of(self).to_host(_bytes(self))
        buffer = pickle.PickleBuffer(content.data) if protocol >= 5 else bytearray(content)
        return _restore_storage, (buffer, self.readonly)


def _backend_of(storage: Storage) -> Backend:
    from shmtensor._backend import backend_of  # late, since it imports NumPy

    return backend_of(storage)


def _bytes(storage: Storage) -> _core.TensorBase:
    """Return a tensor over all bytes of a storage."""
    return _core.TensorBase(storage, "uint8", (storage.nbytes,))


def _restore_storage(content: Buffer, readonly: bool) -> Storage:
    shared = shared_memory_of(content)
    if shared is not None and shared.nbytes == shared.storage().nbytes:
        return _core.readonly_storage(shared.storage()) if readonly else shared.storage()
    return _core.borrow_storage(memoryview(content).toreadonly() if readonly else content)


def shared_memory_of(content: Buffer) -> _core.TensorBase | None:
    """Return the bytes of an out-of-band buffer as a tensor if it is the memoryview of one.

    A transport that receives handles gives such buffers; all others contain copies.
    """
    if isinstance(content, memoryview) and isinstance(content.obj, _core.TensorBase):
        return _core.tensor_over_buffer(content)
    return None


# A file that is mapped with the same size and access is one Storage in a process.
_files: WeakValueDictionary[tuple[int, int, int, bool], Storage] = WeakValueDictionary()
_files_lock = RenewedLock()  # a finalizer that runs while it is held may map a file


def _same_file(storage: Storage, device: int, inode: int) -> Storage:
    with _files_lock():  # `setdefault` of these dicts is not atomic
        return _files.setdefault((device, inode, storage.nbytes, storage.readonly), storage)


def _rebuild_file(path: str, device: int, inode: int, nbytes: int, readonly: bool) -> Storage:
    known = _files.get((device, inode, nbytes, readonly))
    if known is not None:
        return known
    try:  # Mapping creates or extends a file, which a receiver must not do.
        info = os.stat(path)
    except FileNotFoundError:
        raise _stale(f"{path} is gone") from None
    if info.st_size < nbytes:
        raise _stale(f"{path} has shrunk from {nbytes} to {info.st_size} bytes")
    storage = _core.storage_from_file(os.fsencode(path), nbytes, readonly)
    if _core.file_identity(storage) != (device, inode):
        raise _stale(f"{path} was replaced by another file")
    return _same_file(storage, device, inode)


def _stale(change: str) -> StaleHandleError:
    return StaleHandleError(f"cannot use a tensor's handle: {change} since it was sent")


_core.register_storage_class(Storage)
