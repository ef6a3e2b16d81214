"""Objects of any library with their buffers in shared memory."""

from __future__ import annotations

import pickle
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import shmtensor._core as _core
from shmtensor import reducers
from shmtensor._array_reducers import ARRAYS
from shmtensor._layout import address_of
from shmtensor._pickling import MessagePickler, WithBuffers, dumps_shared
from shmtensor._reducer_tables import MESSAGES, MessageReducers
from shmtensor.integrations._registry import install, is_requested
from shmtensor.storage import Storage

if TYPE_CHECKING:
    import numpy.typing as npt

Shared = TypeVar("Shared")


def share(obj: Shared) -> Shared:
    """Return an equal object whose buffers are in shared memory, read-only.

    The buffers are those of NumPy arrays, of Arrow, polars and JAX, and of any object that contains such ones
    or pickles its own out of band (protocol 5): data frames, sparse matrices, xarray, estimators. They are
    copied once, into one block. After that, the result, or a part of it that uses the same buffers (a column,
    a slice), is a short message for each process to which it is sent, by `multiprocessing` or `publish`; all
    processes use the same memory.

    Parameters
    ----------
    obj
        Anything that a queue of this package can send.

    Returns
    -------
    object
        The object as it is unpickled. Its buffers keep the block alive, and no process can write into them.
        What is pickled without buffers, such as an array of Python objects, is private, and a part of each
        message. Tensors, containers, and arrays over shared memory are not copied, and stay as writable as
        they are.

    Raises
    ------
    OutOfSharedMemory
        If there is not enough memory; the text names the limit and the remedy.
    TypeError, pickle.PicklingError
        If the object cannot be pickled.

    See Also
    --------
    asarray : an array that processes can write into.

    Notes
    -----
    For objects of pandas, pyarrow, polars and JAX, this calls `install` with the library's name.

    Examples
    --------
    >>> import numpy as np
    >>> import shmtensor as st
    >>> shared = st.share({"weights": np.arange(3), "step": 5})
    >>> shared["weights"], shared["weights"].flags.writeable
    (array([0, 1, 2]), False)
    """
    pickler = _Pickler()
    with _core.SendScope():  # for tensors in the object, which are pickled as handles
        stream = pickler.dump_apart(obj)
        return pickle.loads(stream, buffers=_in_shared_memory(pickler.buffers))  # type: ignore[no-any-return]


def dumps_in_shared_memory(obj: object) -> bytes:
    """Return a pickle from which each process gets what `share` returns. Its handles need a scope."""
    pickler = _Pickler()
    stream = pickler.dump_apart(obj)
    if not pickler.buffers:
        return stream
    buffers: list[Any] = [
        _core.tensor_over_buffer(each) if isinstance(each, memoryview) else each
        for each in _in_shared_memory(pickler.buffers)
    ]
    return dumps_shared(WithBuffers(stream, buffers))


class _Pickler(MessagePickler):
    """A pickler whose buffers are tensors, those in shared memory, and memoryviews, those to be copied."""

    def __init__(self) -> None:
        super().__init__(lambda raw: raw if raw.nbytes else None)
        self.dispatch_table = _reducers


_LIBRARIES = {
    "jaxlib": ("jax",),
    "pandas": ("pandas", "pyarrow"),
    "polars": ("polars", "pyarrow"),
    "pyarrow": ("pyarrow",),
}
"""The integrations that give the classes of a package out-of-band buffers."""


class _Reducers(MessageReducers):
    def __missing__(self, kind: type) -> Any:
        for name in _LIBRARIES.get(kind.__module__.partition(".")[0], ()):
            if not is_requested(name):
                install(name)
        return MESSAGES.get(kind) or super().__missing__(kind)


_reducers = _Reducers(dict.fromkeys(ARRAYS, reducers.reduce_array_apart))

_ALIGNMENT = 64  # bytes: what Arrow recommends, and what JAX needs to use memory without a copy


def _in_shared_memory(buffers: list[Any]) -> list[Any]:
    """Replace the memoryviews by read-only ones of a new block; memory that occurs twice is copied once."""
    sources: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}
    keys = []
    for raw in buffers:
        key = None
        if isinstance(raw, memoryview):
            source = np.frombuffer(raw, np.uint8)
            key = address_of(source), source.size
            sources[key] = source
        keys.append(key)
    if not sources:
        return buffers
    sizes = [source.size + -source.size % _ALIGNMENT for source in sources.values()]
    block = Storage(sum(sizes))
    content = np.frombuffer(memoryview(block), np.uint8)
    views = {}
    view = memoryview(_core.readonly_storage(block))
    for (key, source), first in zip(sources.items(), accumulate(sizes, initial=0), strict=False):
        last = first + source.size
        np.copyto(content[first:last], source)
        views[key] = view[first:last]
    return [buffer if key is None else views[key] for buffer, key in zip(buffers, keys, strict=True)]
