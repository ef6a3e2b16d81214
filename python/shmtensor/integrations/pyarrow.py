"""pyarrow: slices are sent without the rest of their buffers, shared buffers as handles, by all transports.

pyarrow itself pickles whole buffers for a slice, and bytes where a pickle has no out-of-band buffers.
docs/guide/with-tables.md describes the behaviour.
"""

from __future__ import annotations

from contextlib import suppress
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import shmtensor._core as _core
from shmtensor.integrations._tables import ReducerTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shmtensor.tensor import Tensor

__all__ = ["install", "rebuild_buffer", "uninstall"]

_reducers = ReducerTable()
uninstall = _reducers.clear

# Arrow pickles whole buffers, also of a slice. A slice is copied first if this leaves out at least an eighth.
_PART = 8


def install() -> None:
    """Register the reducers."""
    for kind in _subclasses(pa.Array):
        _reducers.register(kind, reduce_array)
    for kind in _subclasses(pa.Buffer):
        _reducers.register(kind, reduce_buffer)
        _reducers.register_out_of_band(kind, _reduce_out_of_band)


def _subclasses(kind: Any) -> Iterator[type]:
    yield kind
    for derived in kind.__subclasses__():
        yield from _subclasses(derived)


def reduce_array(array: pa.Array) -> Any:
    """Reduce an array as pyarrow does; a slice of one in private memory without the other elements."""
    total = array.get_total_buffer_size()
    if total - array.nbytes > total // _PART and not _is_shared(array):
        with suppress(pa.ArrowNotImplementedError):
            array = pa.concat_arrays([array])
    return array.__reduce__()


def _is_shared(array: pa.Array) -> bool:
    return any(
        buffer is not None and _core.tensor_over_buffer(buffer) is not None for buffer in array.buffers()
    )


def reduce_buffer(buffer: pa.Buffer) -> Any:
    """Reduce a buffer in shared memory to a handle, for a pickler that has no place for buffers."""
    shared = _core.tensor_over_buffer(buffer)
    return buffer.__reduce_ex__(4) if shared is None else (rebuild_buffer, (shared,))


def rebuild_buffer(tensor: Tensor) -> pa.Buffer:
    """Return a buffer over the memory of a tensor."""
    return pa.py_buffer(tensor)


def _reduce_out_of_band(buffer: pa.Buffer) -> Any:
    # Arrow never writes into the buffers of an array, also those that it made and could write.
    return pa.py_buffer, (PickleBuffer(memoryview(buffer).toreadonly()),)
