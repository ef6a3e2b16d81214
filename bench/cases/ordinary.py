"""What ordinary programs do every day, with the standard library and with the drop-in in its place."""

from __future__ import annotations

import importlib
import importlib.util
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench.consumer import consumer_process
from bench.model import Case, Goal, Measure, Probe, Row, Samples, Summary
from bench.options import Options
from bench.peers import load_peer
from bench.timing import per_call

MODULES = {"shmtensor": "shmtensor.multiprocessing", "pickle": "multiprocessing"}
GOAL = Goal(0.9, "ratio", at_least=True)
NBYTES = 20_000_000  # of a message
SENDS = 5  # of each message in a measurement

# In an interpreter of its own: the first worker starts the fork server, or the manager, too.
STARTS = """
import importlib, sys, time
mp = importlib.import_module(sys.argv[1]).get_context(sys.argv[2])
begin = time.perf_counter()
processes = [mp.Process(target=importlib.import_module, args=(sys.argv[3],)) for _ in range(int(sys.argv[4]))]
for process in processes:
    process.start()
    if sys.argv[2] == "forkserver":
        process.join()
for process in processes:
    process.join()
print(time.perf_counter() - begin)
"""
STARTED = {  # start method, what the workers import
    "8 forkserver workers in turn": ("forkserver", "time"),
    "8 forkserver workers in turn, with NumPy": ("forkserver", "numpy"),
    "8 spawn processes": ("spawn", "time"),
    "8 spawn processes, with NumPy": ("spawn", "numpy"),
}

GENERATED = "Pool.imap of arrays of 6 MB from a generator"
ARRAYS, ARRAY = 300, 6_000_000  # bytes
IMAP = """
import importlib, sys, time
import numpy as np
count, size = int(sys.argv[2]), int(sys.argv[3])
with importlib.import_module(sys.argv[1]).Pool(2) as pool:
    begin = time.perf_counter()
    assert sum(pool.imap(np.max, (np.full(size // 8, 1.0) for _ in range(count)))) == count
    print((time.perf_counter() - begin) / count)
"""


def _messages(nbytes: int) -> dict[str, Callable[[], Any]]:
    """Return what makes each message."""
    numbers = np.arange(nbytes / 8)
    pairs = numbers.view([("x", "f4"), ("y", "f4")])
    image = np.resize(np.arange(251, dtype=np.uint8), (nbytes // 7800, 2600, 3))
    messages: dict[str, Callable[[], Any]] = {
        "datetime64": lambda: numbers.astype("M8[s]"),
        "structured": lambda: pairs,
        "recarray": lambda: pairs.view(np.recarray),
        "MaskedArray": lambda: np.ma.masked_less(numbers, 1000),
        "100 times one str": lambda: ["x" * (nbytes // 20)] * 100,
        "frame[..., ::-1]": lambda: image[..., ::-1],
        "a[::2]": lambda: np.arange(nbytes / 4)[::2],
        "crop": lambda: image[:, 650:-650],
    }
    if importlib.util.find_spec("pandas"):
        half = numbers[: len(numbers) // 2]
        columns = {"time": half.astype("M8[s]").astype("M8[ns]"), "value": half}
        messages["data frame with times"] = lambda: importlib.import_module("pandas").DataFrame(columns)
    return messages


def _send_back(connection: Any) -> None:
    while (message := connection.recv()) is not None:
        connection.send(message)


def _produce(queue: Any, count: int) -> None:
    for number in range(count):
        queue.put((number, "a result"))


def _imap_of_partial(mp: Any, scale: int) -> None:
    values = np.random.default_rng(0).random(300_000 // scale).tolist()
    with mp.Pool(2) as pool:
        assert list(pool.imap(partial(operator.getitem, values), range(20))) == values[:20]


def _map_of_small_tasks(mp: Any, scale: int) -> None:
    with mp.Pool(2) as pool:
        pool.map(abs, range(10_000 // scale), chunksize=1)


def _executor(mp: Any, scale: int) -> None:
    with ProcessPoolExecutor(2, mp_context=mp.get_context()) as executor:
        for future in [executor.submit(abs, number) for number in range(1000 // scale)]:
            future.result()


def _pipe(mp: Any, scale: int) -> None:
    here, there = mp.Pipe()
    process = mp.Process(target=_send_back, args=(there,))
    process.start()
    for number in range(5000 // scale):
        here.send({"step": number, "loss": 0.5, "name": "a message"})
        here.recv()
    here.send(None)
    process.join()


def _queue(mp: Any, scale: int) -> None:
    queue, count = mp.Queue(), 10_000 // scale
    process = mp.Process(target=_produce, args=(queue, count))
    process.start()
    for _ in range(count):
        queue.get()
    process.join()


def _start_and_end_pools(mp: Any, scale: int) -> None:
    for _ in range(max(10 // scale, 1)):
        with mp.Pool(2) as pool:
            pool.map(abs, range(10))
            pool.close()
            pool.join()


PROGRAMS = {
    "Pool.imap of a partial of 300,000 floats": _imap_of_partial,
    "Pool.map of 10,000 small tasks": _map_of_small_tasks,
    "ProcessPoolExecutor, 1,000 submits": _executor,
    "Pipe, 5,000 small dicts there and back": _pipe,
    "Queue, 10,000 small tuples": _queue,
    "10 pools started and ended": _start_and_end_pools,
}


def _printed(program: str, *words: str | int) -> float:
    command = [sys.executable, "-c", program, *map(str, words)]
    environment = os.environ | {"SHMTENSOR_MAX_BYTES": "500000000"}  # less than all arrays
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def _variants(_peer: str, _options: Options) -> list[str]:
    return [*_messages(0), *PROGRAMS, GENERATED, *STARTED]


@contextmanager
def _probe(peer_name: str, options: Options) -> Iterator[Probe]:
    os.sched_setaffinity(0, options.processors)  # an ordinary program pins none of its processes
    scale = 100 if options.quick else 1
    mp: Any = importlib.import_module(MODULES[peer_name])
    messages = _messages(NBYTES // scale)
    with consumer_process(load_peer(peer_name), replace(options, pin="none")) as there:

        def measure(variant: str) -> Measure:
            if variant in STARTED:
                words = (*STARTED[variant], 1 if options.quick else 8)
                return {"time": _printed(STARTS, MODULES[peer_name], *words)}
            if variant == GENERATED:
                return {"time": _printed(IMAP, MODULES[peer_name], ARRAYS // scale, ARRAY)}
            if variant in PROGRAMS:
                return {"time": per_call(lambda _: PROGRAMS[variant](mp, scale), 1)}
            message = messages[variant]()
            return {"time": per_call(lambda times: [there.hand_over(message) for _ in range(times)], SENDS)}

        yield measure


def _rows(samples: Samples) -> list[Row]:
    rows = []
    for variant in _variants("", Options()):
        known = {one: samples.values(one, variant, "time") for one in MODULES if samples.has(one, variant)}
        for peer, times in known.items():
            row = Row(variant, peer, "ms", Summary.of(times, 1e3))
            if peer == "shmtensor" and "pickle" in known:
                ratios = list(map(operator.truediv, known["pickle"], times))
                goal = replace(GOAL, limit=3.0) if variant == GENERATED else GOAL
                row = replace(row, ratio=Summary.of(ratios).median, goal=goal)
            if variant == GENERATED:
                row = replace(row, unit="GB/s", summary=Summary.of([ARRAY / one for one in times], 1e-9))
            rows.append(row)
    return rows


CASE = Case(
    name="ordinary",
    summary="what ordinary programs do: messages of 20 MB, tasks, small messages, starts",
    peers=tuple(MODULES),
    variants=_variants,
    probe=_probe,
    rows=_rows,
    baseline="pickle, whose time is divided by shmtensor's",
    rounds=7,
)
