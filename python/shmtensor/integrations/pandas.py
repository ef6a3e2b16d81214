"""pandas: columns of Arrow types travel with the buffers that they have, not with a copy that pandas makes.

docs/guide/with-tables.md describes the behaviour.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from shmtensor.integrations._tables import ReducerTable

__all__ = ["install", "rebuild_array", "uninstall"]

_reducers = ReducerTable()
uninstall = _reducers.clear


def install() -> None:
    """Register the reducer."""
    for name in ("ArrowExtensionArray", "ArrowStringArray"):
        kind = getattr(pd.arrays, name, None)
        if kind is not None:
            _reducers.register(kind, reduce_array)


def reduce_array(array: Any) -> Any:
    """Reduce a column by its attributes; pandas combines its chunks first, which copies also a single one."""
    return rebuild_array, (type(array), vars(array))


def rebuild_array(kind: type, attributes: dict[str, Any]) -> Any:
    """Return a column with these attributes; `__setstate__` of pandas 2.0 takes a single chunk only."""
    array: Any = object.__new__(kind)
    vars(array).update(attributes)
    return array
