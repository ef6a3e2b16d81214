"""Globals that initializers set; `test_server_globals.py` runs it."""

from concurrent.futures import ProcessPoolExecutor

import shmtensor.multiprocessing as mp

context = mp.get_context("server")
cache, shared = None, {}


def initialize(value):
    global cache, undefined
    cache = undefined = shared["value"] = value


def use(k):
    return cache, undefined, shared["value"]


class User:
    def use(self):
        return cache


def use_in_turn(k):
    return use(k), User().use(), (lambda: cache)()


def pool_in_a_worker():
    with context.Pool(1, initializer=initialize, initargs=(7,)) as pool:
        return pool.apply(use, (0,))


for value in (3, 4):
    with context.Pool(2, initializer=initialize, initargs=(value,)) as pool:
        assert pool.map(use, range(4)) == [(value,) * 3] * 4
        assert pool.map(lambda k: cache, range(4)) == [value] * 4
        assert pool.apply(use_in_turn, (0,)) == ((value,) * 3, value, value)
        assert pool.apply(User().use) == value
with ProcessPoolExecutor(1, mp_context=context, initializer=initialize, initargs=(5,)) as executor:
    assert executor.submit(use, 0).result() == (5,) * 3
assert cache is None and shared == {} and "undefined" not in globals(), "the program's are unchanged"
with ProcessPoolExecutor(1, mp_context=context) as executor:
    assert executor.submit(pool_in_a_worker).result() == (7,) * 3
