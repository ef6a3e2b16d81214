"""`share` of data frames, Arrow and polars: equal, in one block, read-only, sent as handles."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import running
from tests.helpers.frames import (
    MAKERS,
    addresses,
    arrow_table,
    equals,
    is_shared,
    pandas_frame,
    polars_frame,
)
from tests.helpers.queues import take


@pytest.fixture(scope="module", autouse=True)
def _runtime_of_polars() -> None:
    """Start the threads that polars keeps, and their descriptors."""
    pl.DataFrame({"a": [1]}).lazy().collect()


@pytest.fixture(autouse=True)
def uninstalled():
    yield
    st.uninstall("pandas", "pyarrow", "polars")


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
    with running(ctx, answer, inbox, outbox) as process:
        inbox.put(shared)
        assert take(outbox)
        back = take(outbox)
        assert addresses(back) == addresses(shared)
        assert equals(back, shared)
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
    with running(ctx, answer_argument, shared, outbox):
        assert take(outbox)
        assert addresses(take(outbox)) == addresses(shared)


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
