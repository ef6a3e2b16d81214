"""A cache between processes: what a hit costs, what adding costs, and the second epoch of a data set.

Hits are those of another process than the one that has added the items. UltraDict has a copy of all values in
the private memory of each process, and returns the object that is there; the others return a new object.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from bench.model import Goal
from bench.options import Options
from bench.rows import case_of_ways
from bench.timing import per_call

IMAGE, RECORD, ADD = "get an image", "get a path and a label", "add an image"
EPOCH = "second epoch of 5,000 images of 5 ms, 2 workers"
UNITS = {IMAGE: ("us", 1e6), RECORD: ("us", 1e6), ADD: ("us", 1e6), EPOCH: ("s", 1.0)}
OURS, NO_CACHE, PLAIN = "st.SharedCache", "no cache", "dict in one process"
GOALS = {IMAGE: Goal(3), RECORD: Goal(1.5)}
SHAPE = (224, 224, 3)
KEYS, WORKERS, BATCH = 100, 2, 50


class _Cache:
    """Our cache; as programs use it, each call has a function that builds."""

    def __init__(self) -> None:
        self.cache: Any = st.SharedCache()

    def add(self, key: int, value: Any) -> None:
        self.cache.get(key, lambda: value)

    def get(self, key: int) -> Any:
        return self.cache.get(key, _never)


def _never() -> Any:
    raise AssertionError("an item that is there is built")


class Mapping:
    """A mapping that processes share, or a dict."""

    def __init__(self, entries: Any, keeps: Any = None) -> None:
        self.entries, self.keeps = entries, keeps

    def add(self, key: int, value: Any) -> None:
        self.entries[key] = value

    def get(self, key: int) -> Any:
        return self.entries[key]


class _Lmdb:
    """A database, with pickles as values; a transaction for each access, as data sets have it."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.database: Any = None

    def _open(self) -> Any:
        if self.database is None:
            lmdb: Any = importlib.import_module("lmdb")
            self.database = lmdb.open(self.folder.name, map_size=1 << 30, sync=False)
        return self.database

    def add(self, key: int, value: Any) -> None:
        with self._open().begin(write=True) as transaction:
            transaction.put(str(key).encode(), pickle.dumps(value, 5))

    def get(self, key: int) -> Any:
        with self._open().begin() as transaction:
            return pickle.loads(transaction.get(str(key).encode()))

    def close(self) -> None:
        """Close the database, which a forked child cannot use; each process opens it when it needs it."""
        self.database.close()
        self.database = None


def managed() -> Mapping:
    manager = multiprocessing.Manager()
    return Mapping(manager.dict(), manager)


def ultradict() -> Mapping:
    from UltraDict import UltraDict  # type: ignore[import-not-found]  # optional

    return Mapping(UltraDict(buffer_size=100 << 20, full_dump_size=100 << 20))


def _diskcache() -> Mapping:
    folder = tempfile.TemporaryDirectory()
    return Mapping(importlib.import_module("diskcache").Cache(folder.name), folder)


PLACES: dict[str, Callable[[], Any]] = {
    OURS: _Cache,
    PLAIN: lambda: Mapping({}),
    "Manager().dict()": managed,
    "UltraDict": ultradict,
    "diskcache": _diskcache,
    "lmdb, pickle": _Lmdb,
}


def _names(variant: str) -> list[str]:
    if variant == EPOCH:
        return [OURS, NO_CACHE]
    optional = {"UltraDict", "diskcache", "lmdb"}
    words = {name: name.split(",")[0] for name in PLACES}
    return [name for name, word in words.items() if word not in optional or importlib.util.find_spec(word)]


def _value(variant: str, key: int) -> Any:
    if variant == RECORD:
        return f"/data/train/class {key % 10}/{key:08}.jpeg", key % 10
    return np.full(SHAPE, key, np.uint8)


def _forked(work: Callable[[], float]) -> float:
    """Return what `work` returns in another process."""
    context: Any = multiprocessing.get_context("fork")
    mine, other = context.Pipe()
    process = context.Process(target=lambda: other.send(work()))
    process.start()
    other.close()
    found: float = mine.recv()
    process.join()
    return found


def _get(name: str, variant: str, options: Options) -> float:
    """Return how long another process than the one that has added the items takes for each."""
    place, turns = PLACES[name](), 1 if options.quick else 20
    for key in range(KEYS):
        place.add(key, _value(variant, key))

    if isinstance(place, _Lmdb):
        place.close()

    def read() -> float:
        if variant == IMAGE:
            assert all((place.get(key) == key).all() for key in range(KEYS))
        else:
            assert all(place.get(key)[1] == key % 10 for key in range(KEYS))
        get = place.get
        all_keys = list(range(KEYS))
        times = [per_call(lambda _: [get(key) for key in all_keys], KEYS) for _ in range(turns)]
        return float(np.median(times))

    return _forked(read)


def _add(name: str) -> float:
    place = PLACES[name]()
    values = [_value(IMAGE, key) for key in range(KEYS)]
    return per_call(lambda _: [place.add(key, values[key]) for key in range(KEYS)], KEYS)


class _Images:
    """A data set whose images take 5 ms each."""

    def __init__(self, count: int, cache: Any, make: Callable[[int], Any]) -> None:
        self.count, self.cache, self.make = count, cache, make

    def __len__(self) -> int:
        return self.count

    def decode(self, index: int) -> Any:
        time.sleep(0.005)
        return self.make(index % 256)

    def __getitem__(self, index: int) -> Any:
        if self.cache is None:
            return self.decode(index)
        return self.cache.get(index, lambda: self.decode(index))


def _batches(cache: Any, count: int) -> Iterator[Callable[[], Any]]:
    """Iterate through epochs, each a function that runs it: with torch's DataLoader, or without torch."""
    if importlib.util.find_spec("torch"):
        torch: Any = importlib.import_module("torch")
        data: Any = importlib.import_module("torch.utils.data")
        torch.set_num_threads(1)
        st.install("torch")
        images = _Images(count, cache, lambda value: torch.full(SHAPE, value, dtype=torch.uint8))
        context = mp.get_context("fork")
        loader = data.DataLoader(
            images,
            BATCH,
            num_workers=WORKERS,
            multiprocessing_context=context,
            persistent_workers=True,
        )
        while True:
            yield lambda: sum(len(batch) for batch in loader)
    images = _Images(count, cache, lambda value: np.full(SHAPE, value, np.uint8))
    with mp.get_context("fork").Pool(WORKERS, _keep, (images,)) as pool:
        while True:
            yield lambda: sum(pool.imap(_stack, [range(at, at + BATCH) for at in range(0, count, BATCH)]))


_kept: Any = None


def _keep(images: _Images) -> None:
    global _kept
    _kept = images


def _stack(indices: range) -> int:
    return len(np.stack([_kept[index] for index in indices]))


def _epoch(name: str, options: Options) -> float:
    """Return how long the second epoch takes."""
    count = 2 * BATCH if options.quick else 5000
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, options.processors)  # the workers inherit it
    epochs = _batches(st.SharedCache() if name == OURS else None, count)
    for _ in range(2):
        start = time.perf_counter()
        assert next(epochs)() == count
    taken = time.perf_counter() - start
    epochs.close()
    os.sched_setaffinity(0, mine)
    return taken


def _measure(variant: str, name: str, options: Options) -> float:
    if variant == EPOCH:
        return _epoch(name, options)
    return _add(name) if variant == ADD else _get(name, variant, options)


def _goal(variant: str, way: str) -> Goal | None:
    if way == OURS:
        return GOALS.get(variant)
    return None if way == PLAIN or variant == ADD else Goal(20, "ratio", at_least=True)


CASE = case_of_ways(
    "cache",
    summary="items that processes cache for one another",
    units=UNITS,
    ways=_names,
    measure=_measure,
    base=lambda _: OURS,
    goal=_goal,
    baseline=OURS,
    rounds=3,
)
