"""The ctypes objects of `multiprocessing`, in shared memory that travels to any process.

The standard library's are in files, reach only processes that are about to start, and share their memory with
others.
"""

from __future__ import annotations

import ctypes
import operator
from multiprocessing import sharedctypes as std
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor.multiprocessing.synchronize import RLock

if TYPE_CHECKING:
    from shmtensor.storage import Storage

__all__ = ["Array", "RawArray", "RawValue", "Value", "copy", "synchronized"]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    return getattr(std, name)  # everything that is not replaced here


_std: Any = std  # parts of which are not in its stub


class _Memory:
    """The memory of an object, as the standard library's functions expect it."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def create_memoryview(self) -> memoryview:
        return memoryview(self.storage)


def RawValue(typecode_or_type: Any, *args: Any) -> Any:  # noqa: N802
    """Return a ctypes object in shared memory; see `multiprocessing.RawValue`."""
    value = _new(_type_of(typecode_or_type))
    value.__init__(*args)
    return value


def RawArray(typecode_or_type: Any, size_or_initializer: Any) -> Any:  # noqa: N802
    """Return a ctypes array in shared memory; see `multiprocessing.RawArray`."""
    of_items = _type_of(typecode_or_type)
    if not hasattr(size_or_initializer, "__len__"):
        return _new(of_items * operator.index(size_or_initializer))
    array = _new(of_items * len(size_or_initializer))
    array.__init__(*size_or_initializer)
    return array


def Value(typecode_or_type: Any, *args: Any, lock: Any = True, ctx: Any = None) -> Any:  # noqa: N802
    """Return a `RawValue` with a lock; see `multiprocessing.Value`."""
    return _with_lock(RawValue(typecode_or_type, *args), lock, ctx)


def Array(typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True, ctx: Any = None) -> Any:  # noqa: N802
    """Return a `RawArray` with a lock; see `multiprocessing.Array`."""
    return _with_lock(RawArray(typecode_or_type, size_or_initializer), lock, ctx)


def copy(obj: Any) -> Any:
    """Return a copy of a ctypes object in new shared memory."""
    made = _new(type(obj))
    ctypes.pointer(made)[0] = obj
    return made


def synchronized(obj: Any, lock: Any = None, ctx: Any = None) -> Any:
    """Return a ctypes object with a lock; see `multiprocessing.sharedctypes.synchronized`."""
    made: Any = std.synchronized(obj, lock or RLock(), ctx or _std)  # which it does not use
    ForkingPickler.register(type(made), _reduce_synchronized)
    return made


def _with_lock(obj: Any, lock: Any, ctx: Any) -> Any:
    if lock is False:
        return obj
    if lock in (True, None):  # also 1, as in the standard library
        lock = RLock()
    elif not hasattr(lock, "acquire"):
        msg = f"{lock!r} has no method 'acquire'"
        raise AttributeError(msg)
    return synchronized(obj, lock, ctx)


def _type_of(typecode_or_type: Any) -> Any:
    return _std.typecode_to_type.get(typecode_or_type, typecode_or_type)


def _new(kind: Any) -> Any:
    return _rebuild(kind, None, _Memory(_core.new_storage(ctypes.sizeof(kind), True)))


def _rebuild(kind: Any, length: int | None, memory: _Memory) -> Any:
    if length is not None:
        kind *= length
    ForkingPickler.register(kind, _reduce)
    obj = kind.from_buffer(memory.create_memoryview())
    obj._wrapper = memory
    return obj


def _reduce(obj: Any) -> Any:
    memory = obj._wrapper
    if not isinstance(memory, _Memory):
        return _std.reduce_ctype(obj)
    if isinstance(obj, ctypes.Array):
        return _rebuild, (obj._type_, obj._length_, memory)
    return _rebuild, (type(obj), None, memory)


def _reduce_synchronized(obj: Any) -> Any:
    if not isinstance(obj._obj._wrapper, _Memory):
        return obj.__reduce__()
    return synchronized, (obj._obj, obj._lock)
