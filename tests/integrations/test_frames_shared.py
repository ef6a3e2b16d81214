"""`share` of data frames, Arrow and polars: equal, in one block, read-only, sent as handles."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn.linear_model
import xarray as xr

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._core import storage_at
from tests.helpers.children import end
from tests.helpers.queues import take

ROWS = 5000


@pytest.fixture(scope="module", autouse=True)
def _runtime_of_polars() -> None:
    """Start the threads that polars keeps, and their descriptors."""
    pl.DataFrame({"a": [1]}).lazy().collect()


@pytest.fixture(autouse=True)
def uninstalled():
    yield
    st.uninstall("pandas", "pyarrow", "polars")


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
every_object = pytest.mark.parametrize("kind", MAKERS)


def blocks() -> int:
    gc.collect()
    return st.stats()["blocks"]


@every_object
def test_shared_object_is_equal_and_in_one_block(kind) -> None:
    st.empty(1)
    before = blocks()
    value = MAKERS[kind]()
    shared = st.share(value)
    assert type(shared) is type(value)
    assert equals(value, shared)
    assert is_shared(shared)
    assert blocks() == before + 1
    again = st.share(shared)
    assert blocks() == before + 1, "it is not copied again"
    assert addresses(again) == addresses(shared)
    del shared, again
    assert blocks() == before


def test_empty_objects() -> None:
    for value in (pandas_frame()[:0], arrow_table()[:0], polars_frame()[:0], pd.DataFrame(), pa.table({})):
        assert equals(value, st.share(value))


def answer(inbox: Any, outbox: Any) -> None:
    answer_argument(inbox.get(), outbox)


def answer_argument(value: Any, outbox: Any) -> None:
    outbox.put(is_shared(value))
    outbox.put(value)


@every_object
def test_queue_carries_handles(kind) -> None:
    ctx = mp.get_context("server")
    shared = st.share(MAKERS[kind]())
    before = blocks()
    inbox, outbox = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=answer, args=(inbox, outbox))
    process.start()
    inbox.put(shared)
    assert take(outbox)
    back = take(outbox)
    assert addresses(back) == addresses(shared)
    assert equals(back, shared)
    end(process)
    inbox.close()
    outbox.close()
    del inbox, outbox, process
    assert blocks() <= before + 1


@pytest.mark.parametrize("kind", ["pandas", "arrow", "polars", "scipy"])
@pytest.mark.parametrize("method", ["spawn", "forkserver", "server"])
def test_arguments_of_a_process_are_handles(kind, method) -> None:
    ctx = mp.get_context(method)
    shared = st.share(MAKERS[kind]())
    outbox = ctx.Queue()
    process = ctx.Process(target=answer_argument, args=(shared, outbox))
    process.start()
    assert take(outbox)
    assert addresses(take(outbox)) == addresses(shared)
    end(process)
    outbox.close()


@every_object
def test_published_object_is_the_same_memory(kind) -> None:
    shared = st.share(MAKERS[kind]())
    st.publish("frame", shared)
    back = st.attach("frame")
    assert addresses(back) == addresses(shared)
    assert equals(back, shared)
    st.unpublish("frame")


def test_pandas_never_writes_into_shared_memory() -> None:
    frame = st.share(pandas_frame()[["a", "c"]])
    with pytest.raises(ValueError, match="read-only"):
        frame.iloc[0, 0] = 7.0
    with suppress(
        ValueError
    ):  # copy-on-write: since another object uses the column, pandas may copy it first
        other = st.share(frame)["a"]
        series = frame["a"]
        frame.iloc[0, 0] = 7.0
    assert other.iloc[0] == series.iloc[0] == 0
    own = st.share(frame).copy()
    own.iloc[0, 0] = 7.0
    assert own.iloc[0, 0] == 7


def test_changed_frame_shares_the_other_columns() -> None:
    frame = st.share(pandas_frame()[["a", "c"]])
    changed = frame.assign(a=frame["a"] + 1)
    assert is_shared(frame)
    assert addresses(changed["c"]) == addresses(frame["c"])


def test_new_columns_are_private() -> None:
    frame = st.share(pandas_frame()[["a", "c"]])
    frame["new"] = 1.0
    assert is_shared(frame[["a", "c"]])
    assert not is_shared(frame[["new"]])


def test_slice_of_a_shared_table_is_a_handle() -> None:
    for shared in (st.share(arrow_table()), st.share(polars_frame().drop("text", "number", "flag"))):
        before = blocks()
        queue: st.Queue = st.Queue()
        queue.put(shared[1000:1010])
        back = queue.get()
        assert equals(back, shared[1000:1010])
        assert is_shared(back)
        queue.close()
        del queue
        assert blocks() == before


@pytest.mark.parametrize(
    "make",
    [
        # Arrow cannot make smaller arrays of these two types.
        lambda: arrow_table().drop_columns(["view", "dense"]),
        lambda: polars_frame().drop("text", "binary"),
    ],
    ids=["arrow", "polars"],
)
def test_slice_of_a_private_table_is_shared_alone(make) -> None:
    st.empty(1)
    live = st.stats()["bytes_live"]
    shared = st.share(make()[1000:1010])
    assert equals(shared, make()[1000:1010])
    assert st.stats()["bytes_live"] - live < 32 * 1024


@pytest.mark.parametrize("make", [arrow_table, polars_frame])
def test_received_table_is_sent_on_without_a_copy(make) -> None:
    st.install("polars", "pyarrow")
    mp.set_buffer_threshold(1)
    try:
        reader, writer = mp.Pipe()
        writer.send(make())
        table = reader.recv()
        before = blocks()
        writer.send(table)
        again = reader.recv()
        assert blocks() == before
        assert addresses(again) == addresses(table)
        reader.close()
        writer.close()
    finally:
        mp.set_buffer_threshold(64 * 1024)


def test_polars_categories_are_equal() -> None:
    values = ["a", "b", None] * 1000
    frame = pl.DataFrame(
        {
            "category": pl.Series(values, dtype=pl.Categorical),
            "enum": pl.Series(values, dtype=pl.Enum(["b", "a"])),
            "lists": pl.Series([["a"], []] * 1500, dtype=pl.List(pl.Categorical)),
        }
    )
    shared = st.share(frame)
    assert equals(shared, frame)
    assert shared["enum"].to_physical().to_list() == frame["enum"].to_physical().to_list()
    queue: st.Queue = st.Queue()
    queue.put(shared)
    assert equals(queue.get(), frame)
    queue.close()


def test_polars_types_without_an_arrow_type_are_pickled_by_polars() -> None:
    frame = pl.DataFrame({"a": pl.Series([1, 2]), "b": pl.Series([1, 2], dtype=pl.Int128)})
    assert equals(st.share(frame), frame)


def test_uninstall_restores_the_pickles() -> None:
    table, frame = pa.table({"a": [1]}), pl.DataFrame({"a": [1]})
    reader, writer = mp.Pipe()
    messages = []
    for installed in (False, True, False):
        (st.install if installed else st.uninstall)("pyarrow", "polars")
        for value in (table, frame):
            writer.send(value)
            messages.append(reader.recv_bytes())
    assert messages[4:] == messages[:2]
    assert messages[3] != messages[1]
    reader.close()
    writer.close()
