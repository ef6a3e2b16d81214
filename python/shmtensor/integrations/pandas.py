"""pandas: columns of Arrow types travel with the buffers that they have, not with a copy that pandas makes.

docs/guide/with-tables.md describes the behaviour.
"""

from __future__ import annotations

import copyreg
from typing import Any

import pandas as pd

from shmtensor.integrations._reducing import ReducerTable

__all__ = ["install", "uninstall"]

_reducers = ReducerTable()


def install() -> None:
    """Register the reducer."""
    for name in ("ArrowExtensionArray", "ArrowStringArray"):
        kind = getattr(pd.arrays, name, None)
        if kind is not None:
            _reducers.register(kind, reduce_array)


def uninstall() -> None:
    """Remove it."""
    _reducers.clear()


def reduce_array(array: Any) -> Any:
    """Reduce a column by its attributes; pandas combines its chunks first, which copies also a single one."""
    return copyreg.__newobj__, (type(array),), vars(array)  # type: ignore[attr-defined]
