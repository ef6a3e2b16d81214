"""Storage: bytes on a device, shared or not."""

from __future__ import annotations

import operator
import os
import pickle
from typing import TYPE_CHECKING, Any, SupportsIndex
from weakref import WeakValueDictionary

import numpy as np

import shmtensor._core as _core
from shmtensor._values import check_size, device_number
from shmtensor.errors import StaleHandleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer, Self

__all__ = ["Storage"]


def __dir__() -> list[str]:
    return __all__


class Storage(_core.StorageBase):
    """Bytes that tensors are views of.

    A new storage is a block of shared memory, uninitialized. It stays allocated while any process has
    an object that refers to it (a storage, a tensor, an array made from one) or a message that carries
    it is in flight; who allocated it does not matter. Within a process, one block is one Storage object,
    however it got there.

    Parameters
    ----------
    nbytes
        Size in bytes; 0 is allowed.
    device
        ``"cpu"``, or a GPU: ``"cuda:0"``, ``"cuda"`` for the first.

    Raises
    ------
    OutOfSharedMemory
        If there is no memory; the text says what is short and what to do.
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
        size = check_size(nbytes, "nbytes")
        if number >= 0:
            return _core.cuda_new_storage(size, number, False)  # type: ignore[return-value]  # as below
        return _core.new_storage(size, False)  # type: ignore[return-value]  # is registered below

    def __init_subclass__(cls) -> None:
        msg = "Storage cannot be subclassed: what arrives in another process would be a plain Storage"
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
            the path and the file's identity; the file keeps the memory alive, so it must stay in place:
            `StaleHandleError` meets who receives the storage of a file that is gone, replaced or shorter.
            False: the bytes are read into private memory.
        nbytes
            Size in bytes; None for the whole file. A shared, writable file is made, or extended, to it.
        readonly
            Map it without the right to write; private bytes refuse writes too.

        Raises
        ------
        OSError
            If the file cannot be opened, extended or mapped; an empty one cannot be.
        ValueError
            If `nbytes` is not positive, or a private read finds fewer bytes.
        """
        place = os.path.join(os.getcwd(), path)
        size = None if nbytes is None else check_size(nbytes, "nbytes")
        if size == 0:
            msg = f"nbytes must be positive: {nbytes!r}"
            raise ValueError(msg)
        if not shared:
            with open(place, "rb") as file:
                content = bytearray(file.read(-1 if size is None else size))
            if size is not None and len(content) < size:
                msg = f"{place} has {len(content)} bytes, fewer than {size}"
                raise ValueError(msg)
            return _restore_storage(content, readonly)
        storage = _core.storage_from_file(os.fsencode(place), size or 0, readonly)
        return _same_file(storage, *_core.file_identity(storage))

    @property
    def device(self) -> str:
        """Name of the device on which the bytes lie."""
        number = _core.device_number(self)
        return "cpu" if number < 0 else f"cuda:{number}"

    def clone(self) -> Storage:
        """Return a copy in a block of its own, on the same device."""
        return Storage(self.nbytes, self.device).copy_(self)

    __copy__ = clone

    def __deepcopy__(self, memo: object) -> Storage:
        return self.clone()

    def copy_(self, source: Buffer) -> Self:
        """Copy the bytes of `source`, which must be as many, into this storage; return it.

        Raises
        ------
        ValueError
            If the sizes differ, or this storage is read-only.
        """
        if _core.device_number(self) >= 0 or (isinstance(source, Storage) and source.device != "cpu"):
            self._bytes().copy_(source._bytes() if isinstance(source, Storage) else memoryview(source))
            return self
        content = np.frombuffer(memoryview(source), np.uint8)
        if content.size != self.nbytes:
            msg = f"cannot copy {content.size} bytes into a storage of {self.nbytes} bytes"
            raise ValueError(msg)
        np.copyto(np.frombuffer(memoryview(self), np.uint8), content)
        return self

    def _bytes(self) -> Any:
        from shmtensor.tensor import Tensor  # a tensor knows how to reach a GPU

        return Tensor(self, np.uint8, (self.nbytes,))

    def fill_(self, value: SupportsIndex) -> Self:
        """Set every byte to `value`, 0 to 255; return the storage.

        Raises
        ------
        ValueError
            If `value` is no byte, or this storage is read-only.
        """
        if not 0 <= operator.index(value) < 256:
            msg = f"a byte is in range(0, 256), not {value!r}"
            raise ValueError(msg)
        if _core.device_number(self) >= 0:
            self._bytes().fill_(value)
        else:
            np.frombuffer(memoryview(self), np.uint8).fill(value)
        return self

    def tobytes(self) -> bytes:
        """Return a private copy of the bytes."""
        if _core.device_number(self) >= 0:
            content: bytes = self._bytes().cpu().numpy().tobytes()
            return content
        return bytes(memoryview(self))

    def __repr__(self) -> str:
        kind = "shared" if self.is_shared() else "private"
        source = f", file {self.filename!r}" if self.filename is not None else ""
        mode = ", read-only" if self.readonly else ""
        return f"<Storage of {self.nbytes} bytes on {self.device}, {kind}{mode}{source}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Storage], tuple[Any, bool]]:
        if _core.device_number(self) >= 0:
            return _restore_storage, (bytearray(self.tobytes()), self.readonly)
        content = pickle.PickleBuffer(self) if protocol >= 5 else bytearray(memoryview(self))
        return _restore_storage, (content, self.readonly)


def _restore_storage(content: Buffer, readonly: bool) -> Storage:
    return _core.borrow_storage(memoryview(content).toreadonly() if readonly else content)


# One file, mapped with the same size and access, is one Storage in a process.
_files: WeakValueDictionary[tuple[int, int, int, bool], Storage] = WeakValueDictionary()


def _same_file(storage: Storage, device: int, inode: int) -> Storage:
    return _files.setdefault((device, inode, storage.nbytes, storage.readonly), storage)


def _rebuild_file(path: str, device: int, inode: int, nbytes: int, readonly: bool) -> Storage:
    known = _files.get((device, inode, nbytes, readonly))
    if known is not None:
        return known
    try:  # Mapping makes or extends a file, which is not for a reader to do.
        info = os.stat(path)
    except FileNotFoundError:
        raise _stale(f"{path} is gone") from None
    if info.st_size < nbytes:
        raise _stale(f"{path} has shrunk from {nbytes} to {info.st_size} bytes")
    storage = _core.storage_from_file(os.fsencode(path), nbytes, readonly)
    if _core.file_identity(storage) != (device, inode):
        raise _stale(f"{path} was replaced by another file")
    return _same_file(storage, device, inode)


def _stale(what: str) -> StaleHandleError:
    return StaleHandleError(f"cannot use a tensor's handle: {what} since it was sent")


_core.register_storage_class(Storage)
