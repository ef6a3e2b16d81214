"""Two programs share a table by name, also after the one that published it has been killed."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.helpers.children import clean_environment

MAKE = """
    import numpy as np, pandas as pd, polars as pl, pyarrow as pa
    import shmtensor as st
    from shmtensor._core import storage_at

    columns = {"number": np.arange(100_000.0), "text": [f"text {i}" for i in range(100_000)]}
    make = {"pandas": pd.DataFrame, "pyarrow": pa.table, "polars": pl.DataFrame}["KIND"]
"""
PUBLISHER = f"""{MAKE}
    st.publish("table", st.share(make(columns)))
    print(flush=True)
    input()
"""
READER = f"""{MAKE}
    def address(table):
        column = table["number"]
        array = column.chunk(0) if "KIND" == "pyarrow" else column
        return array.to_numpy().__array_interface__["data"][0]

    table = st.attach("table", timeout=30)
    assert storage_at(address(table), 800_000) is not None
    live = st.stats()["bytes_live"]
    print(flush=True)
    input()
    again = st.attach("table")
    assert address(again) == address(table), "it is the same memory"
    assert table.equals(make(columns)) and again.equals(make(columns))
    assert st.stats()["bytes_live"] == live
    st.unpublish("table")
"""


def program(text: str, kind: str, session: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text).replace("KIND", kind)],
        env=clean_environment(SHMTENSOR_SESSION=session),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "polars"])
def test_table_outlives_its_killed_publisher(tmp_path, kind) -> None:
    publisher, reader = programs = [program(text, kind, str(tmp_path)) for text in (PUBLISHER, READER)]
    try:
        assert publisher.stdout.readline() == "\n"
        assert reader.stdout.readline() == "\n"
        publisher.kill()
        publisher.wait(30)
        _, errors = reader.communicate("\n", timeout=60)
        assert reader.returncode == 0, errors
    finally:
        for one in programs:
            one.kill()
            one.communicate()
