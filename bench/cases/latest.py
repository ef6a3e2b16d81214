"""The newest value: what a reader pays, and how long weights take to all actors."""

from __future__ import annotations

import importlib.util
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import shmtensor as st
from bench.cases.cache import Mapping, managed, ultradict
from bench.model import Goal
from bench.options import Options
from bench.rows import case_of_ways
from bench.timing import per_call

SAME, NEW, NEW_TENSOR = (
    "get an unchanged array of 8 MiB",
    "get a new array of 8 MiB",
    "get a new tensor of 8 MiB",
)
WEIGHTS = "weights of 1 GiB to 8 actors"
UNITS = {SAME: ("us", 1e6), NEW: ("us", 1e6), NEW_TENSOR: ("us", 1e6), WEIGHTS: ("s", 1.0)}
GOALS = {SAME: Goal(0.3), NEW_TENSOR: Goal(2)}
ACTORS = 8
PIPES, COPY = "pickle, pipes", "one copy"


class _Published:
    """The name of an object, which a writer replaces."""

    def set(self, value: Any) -> None:
        st.publish("bench", value)

    def get(self) -> Any:
        return st.attach("bench")


class _Entry:
    """A value in a mapping that processes share."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping

    def set(self, value: Any) -> None:
        self.mapping.add(0, value)

    def get(self) -> Any:
        return self.mapping.get(0)


PLACES: dict[str, Callable[[], Any]] = {
    "st.Latest": st.Latest,
    "st.publish, st.attach": _Published,
    "Manager().dict()": lambda: _Entry(managed()),
    "UltraDict": lambda: _Entry(ultradict()),
}


def _names(variant: str) -> list[str]:
    if variant == WEIGHTS:
        return ["st.Latest", PIPES, COPY]
    if variant == NEW_TENSOR:
        return ["st.Latest", "st.publish, st.attach"]
    return [name for name in PLACES if name != "UltraDict" or importlib.util.find_spec(name) is not None]


def _read(place: Any, pipe: Any) -> None:
    while pipe.recv():
        start = time.perf_counter()
        place.get()
        pipe.send(time.perf_counter() - start)


def _get(name: str, variant: str, options: Options) -> float:
    """Return how long another process takes to get the value."""
    context: Any = multiprocessing.get_context("fork")
    place, value = PLACES[name](), st.zeros(1 << 20) if variant == NEW_TENSOR else np.zeros(1 << 20)
    place.set(value)
    if variant == SAME:
        return per_call(lambda count: [place.get() for _ in range(count)], 5 if options.quick else 1_000)
    mine, other = context.Pipe()
    reader = context.Process(target=_read, args=(place, other))
    reader.start()
    seconds = []
    for _ in range(3 if options.quick else 50):
        place.set(value)
        mine.send(True)
        seconds.append(mine.recv())
    mine.send(False)
    reader.join()
    return float(np.median(seconds))


def _follow(receive: Callable[[], Any], received: Any) -> None:
    while (value := receive()) is not None:
        received.put(float(value[0]))


def _publish(way: str, options: Options) -> float:
    """Return the time from weights in private memory until all actors have them."""
    context: Any = multiprocessing.get_context("fork")
    weights, received = np.zeros((1 << 20) if options.quick else (1 << 27)), context.SimpleQueue()
    latest: Any = st.Latest()
    pipes = [context.Pipe(False) for _ in range(ACTORS)]
    receives: list[Callable[[], Any]] = [lambda: latest.get(after=latest.received)] * ACTORS
    if way == PIPES:
        receives = [reader.recv for reader, _ in pipes]
    actors = [context.Process(target=_follow, args=(receive, received)) for receive in receives]
    for actor in actors:
        actor.start()
    seconds = []
    for step in (1.0, 2.0, None):
        weights[:] = step or 0
        value = None if step is None else weights
        start = time.perf_counter()
        if way == "st.Latest":
            latest.set(value)
        else:
            for _, writer in pipes:
                writer.send(value)
        if step is not None:
            assert [received.get() for _ in actors] == [step] * ACTORS
            seconds.append(time.perf_counter() - start)
    for actor in actors:
        actor.join()
    return seconds[-1]


def _copy(options: Options) -> float:
    source = np.ones((1 << 20) if options.quick else (1 << 27))
    target = np.zeros_like(source)
    target[:] = 2
    start = time.perf_counter()
    np.copyto(target, source)
    return time.perf_counter() - start


def _measure(variant: str, name: str, options: Options) -> float:
    if variant == WEIGHTS:
        return _copy(options) if name == COPY else _publish(name, options)
    return _get(name, variant, options)


CASE = case_of_ways(
    "latest",
    summary="the newest of the values that a process sets",
    units=UNITS,
    ways=_names,
    measure=_measure,
    base=lambda _: "st.Latest",
    goal=lambda variant, way: GOALS.get(variant) if way == "st.Latest" else None,
    baseline="st.Latest",
    rounds=3,
)
