"""Handles without tickets: the sender holds the blocks, each receiver borrows them while they exist.

For transports in which a message may be read repeatedly, or by processes that the sender does not know.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import shmtensor._core as _core
from shmtensor import _array_reducers


def dumps(obj: Any) -> bytes:
    """Return a pickle of an object with its tensors and storages as handles, which keep nothing allocated."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5)
    pickler.dispatch_table = _array_reducers.REDUCERS
    with _core.SendScope(borrowed=True):
        pickler.dump(obj)
    return file.getvalue()


def loads(content: Any) -> Any:
    """Return the object. This process holds the blocks as long as it has their tensors.

    Raises
    ------
    StaleHandleError
        If a block has been freed, or is in a session that this process cannot reach.
    """
    with _core.ReadScope():
        return pickle.loads(content)
