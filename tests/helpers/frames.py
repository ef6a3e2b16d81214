"""Data frames, tables and other objects that contain arrays, and where their buffers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse
import sklearn.linear_model
import xarray as xr

from shmtensor._core import storage_at

ROWS = 5000


def numbers() -> np.ndarray:
    return np.arange(float(ROWS))


def pandas_frame() -> pd.DataFrame:
    index = pd.date_range("2020-01-01", periods=ROWS, freq="h", tz="Europe/Berlin")
    frame = pd.DataFrame(
        {
            "a": numbers(),
            "b": np.arange(ROWS),
            "c": numbers() * 2,
            "flag": np.arange(ROWS) % 3 == 0,
            "when": pd.date_range("2020", periods=ROWS, freq="min"),
            "zone": index,
            "span": pd.to_timedelta(np.arange(ROWS), unit="s"),
            "kind": pd.Categorical(["x", "y"] * (ROWS // 2)),
            "nullable": pd.array([1, None] * (ROWS // 2), dtype="Int64"),
            "arrow": pd.array(["text", None] * (ROWS // 2), dtype="string[pyarrow]"),
        },
        index=index,
    )
    frame.loc[frame.index[3], "a"] = np.nan
    return frame


def arrow_table() -> pa.Table:
    values = list(range(ROWS))
    columns = {
        "number": pa.array([None if i % 7 == 0 else i for i in values]),
        "text": pa.array([None if i % 5 == 0 else f"text {i}" for i in values]),
        "large": pa.array([f"text {i}" for i in values], pa.large_string()),
        "view": pa.array([f"a text that is not inline {i}" for i in values], pa.string_view()),
        "flag": pa.array([i % 3 == 0 for i in values]),
        "list": pa.array([[i] * (i % 4) for i in values]),
        "struct": pa.array([{"x": i, "y": {"z": str(i)}} for i in values]),
        "map": pa.array([[("k", i)] for i in values], pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array([str(i % 10) for i in values]).dictionary_encode(),
        "zone": pa.array(values, pa.timestamp("us", tz="Europe/Berlin")),
        "decimal": pa.array([Decimal(i) for i in values], pa.decimal128(12, 2)),
        "fixed": pa.array([[i, i] for i in values], pa.list_(pa.int32(), 2)),
        "null": pa.nulls(ROWS),
        "dense": pa.UnionArray.from_dense(
            pa.array([0] * ROWS, pa.int8()), pa.array(values, pa.int32()), [pa.array(values)]
        ),
    }
    return pa.table(columns)


def polars_frame() -> pl.DataFrame:
    values = list(range(ROWS))
    return pl.DataFrame(
        {
            "number": pl.Series([None if i % 7 == 0 else i for i in values], dtype=pl.Int64),
            "text": [None if i % 5 == 0 else f"a text that is not inline {i}" for i in values],
            "flag": [i % 3 == 0 for i in values],
            "list": [[i] * (i % 4) for i in values],
            "struct": [{"x": i, "y": {"z": str(i)}} for i in values],
            "zone": pl.Series(values).cast(pl.Datetime("us", "Europe/Berlin")),
            "date": pl.Series(values).cast(pl.Date),
            "span": pl.Series(values).cast(pl.Duration("ms")),
            "time": pl.Series(values).cast(pl.Time),
            "decimal": pl.Series([Decimal(i) for i in values], dtype=pl.Decimal(12, 2)),
            "array": pl.Series([[i, i] for i in values], dtype=pl.Array(pl.Int32, 2)),
            "binary": [str(i).encode() for i in values],
            "null": pl.Series([None] * ROWS),
        }
    )


def arrow_addresses(array: pa.Array) -> Iterator[int]:
    yield from (buffer.address for buffer in array.buffers() if buffer is not None and buffer.size)
    if isinstance(array, pa.DictionaryArray):
        yield from arrow_addresses(array.dictionary)


def addresses(value: Any) -> list[int]:
    """Return where the buffers of an object are."""
    if isinstance(value, pl.Series):
        value = value.to_frame()
    if isinstance(value, pl.DataFrame):
        value = value.to_arrow(compat_level=pl.CompatLevel.newest())
    if isinstance(value, pa.Array):
        return list(arrow_addresses(value))
    if isinstance(value, pa.ChunkedArray):
        return [address for chunk in value.chunks for address in arrow_addresses(chunk)]
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return [address for column in value.columns for address in addresses(column)]
    if isinstance(value, pd.DataFrame):
        return [address for name in value for address in addresses(value[name])] + addresses(value.index)
    if isinstance(value, pd.RangeIndex):
        return []
    if isinstance(value, pd.MultiIndex):
        return [address for part in (*value.levels, *value.codes) for address in addresses(part)]
    if isinstance(value, (pd.Series, pd.Index)):
        return addresses(value.array)
    if isinstance(value, pd.api.extensions.ExtensionArray):
        if isinstance(value, pd.Categorical):
            return addresses(value.codes)
        parts = ("_pa_array", "_ndarray", "_data", "_mask")
        return [a for part in parts if hasattr(value, part) for a in addresses(getattr(value, part))]
    if isinstance(value, xr.Dataset):
        return [address for name in value for address in addresses(value[name].to_numpy())]
    if scipy.sparse.issparse(value):
        return [address for part in (value.data, value.indices, value.indptr) for address in addresses(part)]
    if isinstance(value, sklearn.linear_model.LinearRegression):
        return addresses(value.coef_)
    return [value.__array_interface__["data"][0]] if value.size else []


def is_shared(value: Any) -> bool:
    found = addresses(value)
    return bool(found) and all(storage_at(address, 1) is not None for address in found)


def equals(one: Any, other: Any) -> bool:
    if isinstance(one, xr.Dataset):
        return one.identical(other)
    if scipy.sparse.issparse(one):
        return (one != other).nnz == 0
    if isinstance(one, np.ndarray):
        return bool((one == other).all())
    if isinstance(one, sklearn.linear_model.LinearRegression):
        return bool((one.coef_ == other.coef_).all())
    if isinstance(one, pl.DataFrame) and one.schema != other.schema:
        return False
    return bool(one.equals(other))


def regression() -> Any:
    rng = np.random.default_rng(0)
    return sklearn.linear_model.LinearRegression().fit(rng.normal(size=(300, 200)), numbers()[:300])


MAKERS: dict[str, Callable[[], Any]] = {
    "pandas": pandas_frame,
    "pandas column": lambda: pandas_frame()["c"],
    "pandas strided rows": lambda: pandas_frame()[["a", "b", "c"]].iloc[::2],
    "pandas multi-index": lambda: pandas_frame()[["a", "b"]].set_index(["b"], append=True),
    "pandas index": lambda: pd.Index(numbers()),
    "pandas text": lambda: pd.DataFrame({"text": pd.array(["a", None, "b"], dtype="string[pyarrow]")}),
    "arrow": arrow_table,
    "arrow chunks": lambda: pa.concat_tables([arrow_table(), arrow_table()]),
    "arrow batch": lambda: arrow_table().to_batches()[0],
    "arrow array": lambda: pa.array(["a", None, "b"]),
    "arrow chunked array": lambda: pa.chunked_array([[1, 2], [3]]),
    "arrow slice": lambda: arrow_table().slice(1001, 13),
    "polars": polars_frame,
    "polars chunks": lambda: pl.concat([polars_frame(), polars_frame()], rechunk=False),
    "polars series": lambda: polars_frame()["text"],
    # polars copies bitmaps that begin within a byte.
    "polars slice": lambda: polars_frame().drop("text", "number", "flag")[1001:1014],
    "scipy": lambda: scipy.sparse.csr_matrix(np.eye(300)),
    "xarray": lambda: xr.Dataset({"x": (("i", "j"), np.ones((300, 300)))}, {"i": np.arange(300)}),
    "sklearn": regression,
}
