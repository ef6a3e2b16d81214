"""polars: frames and series travel as Arrow tables, whose buffers are in shared memory.

docs/guide/with-tables.md describes the behaviour. polars itself pickles the bytes of its frames.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import polars as pl

from shmtensor.integrations._tables import ReducerTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["install", "rebuild_frame", "rebuild_series", "uninstall"]

_reducers = ReducerTable()
uninstall = _reducers.clear

# Older versions of polars convert its texts, which copies them.
_OPTIONS: Any = {"compat_level": pl.CompatLevel.newest()} if hasattr(pl, "CompatLevel") else {}
_FAILURES = (Exception, getattr(pl.exceptions, "PanicException", Exception))


def install() -> None:
    """Register the reducers."""
    _reducers.register(pl.DataFrame, reduce_frame)
    _reducers.register(pl.Series, reduce_series)


def reduce_frame(frame: pl.DataFrame) -> Any:
    """Reduce a frame to an Arrow table; as polars does what Arrow cannot represent."""
    table = _to_arrow(frame)
    return frame.__reduce_ex__(4) if table is None else (rebuild_frame, (table,))


def reduce_series(series: pl.Series) -> Any:
    """Reduce a series to an Arrow table of one column; as polars does what Arrow cannot represent."""
    table = _to_arrow(series.to_frame())
    return series.__reduce_ex__(4) if table is None else (rebuild_series, (table,))


def _to_arrow(frame: pl.DataFrame) -> pa.Table | None:
    """Return a table over the memory of a frame; None if polars would not make an equal frame of it."""
    try:
        if not _survive(tuple(frame.dtypes)):
            return None
        return frame.to_arrow(**_OPTIONS)
    except _FAILURES:
        return None  # pyarrow is not installed, or Arrow has no such type


@lru_cache(maxsize=1024)
def _survive(dtypes: tuple[pl.DataType, ...]) -> bool:
    """Return True if columns of these types have the same types after a conversion to Arrow and back."""
    frame = pl.DataFrame(schema=[(str(i), dtype) for i, dtype in enumerate(dtypes)])
    table = frame.to_arrow(**_OPTIONS)
    return bool(rebuild_frame(table).dtypes == list(dtypes))


def rebuild_frame(table: pa.Table) -> pl.DataFrame:
    """Return a frame over the memory of a table."""
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def rebuild_series(table: pa.Table) -> pl.Series:
    """Return a series over the memory of a table of one column."""
    return rebuild_frame(table).to_series()
