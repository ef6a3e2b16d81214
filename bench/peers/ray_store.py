"""Ray: `ray.put` copies an array into the object store; an actor receives a view of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import ray

from bench.options import Options
from bench.peers import Array, Consumer, Peer

STORE = 1 << 30  # bytes


@contextmanager
def running_ray(options: Options) -> Iterator[None]:
    """Start Ray on this machine; its own processes are not pinned."""
    os.sched_setaffinity(0, options.processors)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=STORE,
        logging_level="error",
        log_to_driver=False,
    )
    options.place(0)
    try:
        yield
    finally:
        ray.shutdown()


class Taker:
    """The actor."""

    def __init__(self, options_text: str) -> None:
        Options.from_text(options_text).place(1)

    def take(self, message: Any) -> None:
        if isinstance(message, list):  # references in a list are not resolved for the callee
            ray.get(message)


class Actor:
    """One call of a method for each message."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def hand_over(self, message: Any) -> object:
        return ray.get(self._actor.take.remote(message))


class Ray(Peer):
    """References to objects in Ray's store."""

    def fresh(self, nbytes: int) -> Any:
        return ray.put(np.empty(nbytes, np.uint8))

    def copy_in(self, array: Array) -> Any:
        return ray.put(array)

    @contextmanager
    def consumer(self, options: Options, _serve: object = None) -> Iterator[Consumer]:
        with running_ray(options):
            yield Actor(ray.remote(Taker).remote(options.to_text()))


PEER = Ray
