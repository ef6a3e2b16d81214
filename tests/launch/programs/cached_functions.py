"""Functions with a cache; `test_server_cached.py` runs it."""

import functools
import math

import shmtensor.multiprocessing as mp

context = mp.get_context("server")
SCALE = 3


@functools.lru_cache(maxsize=5, typed=True)
def scaled(n):
    return n if n < 2 else scaled(n - 1) + SCALE


scaled.version = 2
root = functools.cache(math.sqrt)


def make(k):
    return functools.cache(lambda x: x + k)


def through(n):
    return scaled(n)


def counts(_):
    return scaled.cache_info()[:], scaled.cache_parameters(), scaled.version


def is_mine(function):
    return function is scaled and function.__wrapped__ is scaled.__wrapped__


def give(thing):
    return thing


with context.Pool(1) as pool:
    assert pool.map(scaled, [4, 4]) == [10, 10]
    info, parameters, version = pool.apply(counts, (0,))
    assert info[:3] == (1, 4, 5), "tasks share one cache"
    assert parameters == {"maxsize": 5, "typed": True} and version == 2
    assert pool.apply(through, (4,)) == 10
    assert pool.apply(give, (scaled,)) is scaled and pool.apply(is_mine, (scaled,))
    assert pool.apply(root, (9,)) == 3.0 and pool.apply(make(5), (1,)) == 6
    assert pool.apply(make, (7,))(1) == 8
    scaled.cache_clear()
    SCALE = 100
    assert pool.apply(through, (9,)) == 510, "10 for 4 is in the worker's cache"
assert scaled.cache_info()[:2] == (0, 0)
