"""Caches: actors make them, send them to each other, get items that one of them builds, and remove items."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import shmtensor as st
from shmtensor import _core
from tests.observer.patterns import mismatch, new_tag, pattern
from tests.torture.shared import introduce, inviting

if TYPE_CHECKING:
    from shmtensor.storage import Storage
    from tests.torture.actions import ActorState

MOST = 2  # that a thread keeps after an action
KEYS = 100  # the first table has 64 places


class SharedItems(NamedTuple):
    """A cache of patterns, and its number."""

    number: int
    cache: st.SharedCache[np.ndarray[Any, Any]]

    def storages(self) -> Iterator[Storage]:
        yield self.cache._storage


def storages_of(items: list[np.ndarray[Any, Any]]) -> Iterator[Storage]:
    """Yield the storages that these arrays keep alive; one for which a cache had no room has none."""
    for array in items:
        storage = _core.storage_at(array.ctypes.data, array.nbytes)
        if storage is not None:
            yield storage


def tag_and_words(key: int) -> tuple[int, int]:
    return new_tag(key), 50 + key * 37


def make_cache(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.state.has_queues:
        return
    limit = rng.choice((None, 20_000, 200_000, 2_000_000))
    shared = SharedItems(time.monotonic_ns(), st.SharedCache(limit))
    introduce(actor_state, actor_state.caches, shared, rng)


def get_item(actor_state: ActorState, rng: random.Random) -> None:
    """Get some items, of which another actor may be building one, and keep the last one for a while."""
    if not actor_state.caches:
        return
    cache, last = rng.choice(actor_state.caches).cache, []
    for _ in range(rng.randrange(1, 10)):
        key = rng.randrange(KEYS)
        tag, words = tag_and_words(key)

        def build(tag: int = tag, words: int = words) -> np.ndarray[Any, Any]:
            if rng.random() < 0.1:
                time.sleep(rng.random() * 0.01)
            return pattern(tag, words)

        with actor_state.allowing_loss():
            array = cache.get(key, build, wait=rng.random() < 0.9)
            if array.size != words or (why := mismatch(array, tag)):
                raise AssertionError(f"item {key} has {array.size} words: {why}")
            last = [array]
    actor_state.items.extend(last)
    del actor_state.items[:-3]


def remove_item(actor_state: ActorState, rng: random.Random) -> None:
    if not actor_state.caches:
        return
    cache = rng.choice(actor_state.caches).cache
    with actor_state.allowing_loss():
        if rng.random() < 0.02:
            cache.clear()
        elif rng.random() < 0.05:
            cache.set_limit(rng.choice((None, 20_000, 200_000)))
        else:
            cache._remove(rng.randrange(KEYS))


def release_caches(actor_state: ActorState) -> None:
    actor_state.caches.clear()
    actor_state.items.clear()


CACHES = [(make_cache, 0.3), (inviting("caches"), 0.7), (get_item, 10), (remove_item, 3)]
