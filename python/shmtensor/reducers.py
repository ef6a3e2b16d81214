"""Reducers that send storages as handles, for the pickler of `multiprocessing`, and what handles name.

Importing this module registers them, for every queue, pipe and pool of the process, the standard library's
own included, also if the program imports `multiprocessing` later. A process imports it when it makes its
first tensor (the extension does that), or when it receives one, since a handle names the functions here.
Those of tensors and arrays are in `_array_reducers`, which the extension imports, too, for a tensor, and
`_reducer_tables` when an array is first pickled. Pickle's extension codes would be shorter names, but a
receiver without this package could not resolve them.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

import shmtensor._core as _core
from shmtensor._core import (
    rebuild_array,
    rebuild_elements,
    rebuild_storage,
    rebuild_tensor,
    rebuild_view,
    reduce_array_apart,
    reduce_array_out_of_band,
    reduce_shared,
)
from shmtensor._import_hook import when_imported
from shmtensor._reducer_tables import FORKING
from shmtensor.storage import Storage, _rebuild_file

__all__ = [
    "rebuild_array",
    "rebuild_elements",
    "rebuild_masked",
    "rebuild_storage",
    "rebuild_tensor",
    "rebuild_view",
    "reduce_array_apart",
    "reduce_array_out_of_band",
    "reduce_shared",
    "reduce_storage",
]
__dir__ = __all__.copy


def reduce_storage(storage: Storage) -> Any:
    """Reduce a storage to its handle; one of a file to its name."""
    if storage.filename is None:
        return _core.reduce_storage(storage)
    identity = _core.file_identity(storage)
    return _rebuild_file, (storage.filename, *identity, storage.nbytes, storage.readonly)


def rebuild_masked(data: Any, mask: Any, fill_value: Any) -> Any:
    """Return a masked array of these arrays."""
    from numpy.ma import MaskedArray

    return MaskedArray(data, mask, fill_value=fill_value, keep_mask=False)


FORKING[Storage] = reduce_storage
FORKING[_core.OutgoingBytes] = _core.reduce_outgoing_bytes


def _ensure_manager_at_exit(_: object) -> None:
    from multiprocessing import util

    # After the feeder threads of queues have written (-5): what they sent must outlive this process, so if
    # the manager was killed since, another manager is started and learns of it.
    util.Finalize(None, _core.ensure_managers, exitpriority=-100)


def _use_finalizers() -> None:
    from multiprocessing import util

    atexit.unregister(_core.ensure_managers)
    _ensure_manager_at_exit(None)
    # A child process begins with an empty list of finalizers.
    util.register_after_fork(sys.modules[__name__], _ensure_manager_at_exit)


atexit.register(_core.ensure_managers)
when_imported("multiprocessing.util", _use_finalizers)
