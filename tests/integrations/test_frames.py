"""Data frames, Arrow tables and sparse matrices: their large buffers arrive in shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import xarray as xr

import shmtensor.multiprocessing as mp
from shmtensor._core import storage_at
from tests.helpers.children import running
from tests.helpers.queues import take

ROWS = 20_000


def frame() -> pd.DataFrame:
    return pd.DataFrame({"a": np.arange(float(ROWS)), "b": np.arange(ROWS), "text": ["x"] * ROWS})


def times() -> pd.DataFrame:
    seconds = np.arange(ROWS)
    zone = pd.to_datetime(seconds, unit="s", utc=True)
    return pd.DataFrame({"a": pd.to_datetime(seconds, unit="s"), "b": seconds.view("m8[s]"), "zone": zone})


MAKERS = {
    "pandas": frame,
    "pandas, times": times,
    "pyarrow": lambda: pa.table({"a": np.arange(float(ROWS)), "b": np.arange(ROWS)}),
    "scipy": lambda: scipy.sparse.csr_matrix(np.eye(300) + np.ones((300, 300))),
    "xarray": lambda: xr.Dataset({"x": (("i", "j"), np.ones((300, 300)))}),
}


def addresses(value: Any) -> list[int]:
    if isinstance(value, pa.Table):
        return [column.chunk(0).buffers()[1].address for column in value.columns]
    if isinstance(value, pd.DataFrame):
        arrays = [value["a"].to_numpy(), value["b"].to_numpy()]
    elif isinstance(value, xr.Dataset):
        arrays = [value["x"].to_numpy()]
    else:
        arrays = [value.data, value.indices]
    return [array.__array_interface__["data"][0] for array in arrays]


def is_shared(value: Any) -> bool:
    return all(storage_at(address, 1) is not None for address in addresses(value))


def answer(inbox: Any, outbox: Any) -> None:
    value = inbox.get()
    outbox.put(is_shared(value))
    outbox.put(value)


def is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, xr.Dataset):
        return one.identical(other)
    if isinstance(one, (pa.Table, pd.DataFrame)):
        return one.equals(other)
    return (one != other).nnz == 0


@pytest.mark.parametrize("library", MAKERS)
def test_buffers_arrive_in_shared_memory(library, ctx) -> None:
    value = MAKERS[library]()
    inbox, outbox = ctx.Queue(), ctx.Queue()
    with running(ctx, answer, inbox, outbox):
        inbox.put(value)
        assert take(outbox)
        back = take(outbox)
        assert is_shared(back)
        assert is_equal(value, back)
        assert not is_shared(value)


def test_column_that_is_changed_between_messages_is_sent_twice() -> None:
    queue = mp.Queue()
    queue.put(frame())
    received = queue.get()
    for _ in range(2):
        received["a"] += 1
        queue.put(received)
    assert [queue.get()["a"][0] for _ in range(2)] == [1, 2]
