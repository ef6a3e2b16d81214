"""SharedCache, in one process."""

from __future__ import annotations

import pickle
import random
import signal
import threading
import time
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.live_resources import assert_no_leaks, live_resources

SECONDS = 60
PLACE = 320  # bytes that each item has besides its value
Pair = namedtuple("Pair", "first second")  # noqa: PYI024  # as programs have it


def no_build() -> Any:
    raise AssertionError("an item that is there is built")


def test_an_item_is_built_once() -> None:
    with assert_no_leaks():
        cache: Any = st.SharedCache()
        built = []
        for _ in range(3):
            assert cache.get("key", lambda: built.append(1) or "value") == "value"
        assert built == [1]
        assert ("key" in cache, "other" in cache, len(cache)) == (True, False, 1)
        assert cache["key"] == cache.get("key") == "value"
        assert cache.get("other") is None
        assert cache.stats() == {
            "hits": 4,
            "misses": 2,
            "items": 1,
            "bytes": PLACE,
            "evictions": 0,
            "max_bytes": None,
        }
        assert repr(cache) == "<SharedCache: 1 items, 320 bytes>"
        del cache["key"]
        assert len(cache) == 0
        with pytest.raises(KeyError, match="key"):
            cache["key"]
        with pytest.raises(KeyError, match="key"):
            del cache["key"]
        assert cache.get("key", lambda: None) is None
        assert cache.get("key", no_build) is None
        del cache


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.5,
        "text",
        "t" * 5000,
        b"b" * 100_000,
        {"key": [1, 2]},
        Pair(1, "a"),
        1 << 100,
        np.arange(3),
        np.arange(24).reshape(2, 3, 4)[:, ::2, ::-1],
        np.asfortranarray(np.ones((300, 200), np.float32)),
        np.zeros((0, 5)),
        np.array(7),
        np.array(["2026-11-28", "NaT"], "datetime64[D]"),
        np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
        np.ma.masked_array([1, 2, 3], [0, 1, 0]),
    ],
)
def test_any_object(value: Any) -> None:
    cache: Any = st.SharedCache()
    for _ in range(2):
        got = cache.get(1, lambda: value)
        assert type(got) is type(value)
        np.testing.assert_array_equal(got, value)
        if isinstance(value, np.ndarray):
            assert (got.dtype, got.shape) == (value.dtype, value.shape)


def test_arrays_are_read_only_views_of_one_memory() -> None:
    cache: Any = st.SharedCache()
    for key, build in {
        "array": lambda: np.arange(1000.0),
        "nested": lambda: {"image": np.zeros((28, 28)), "label": 3},
    }.items():
        first, second = cache.get(key, build), cache[key]
        if key == "nested":
            first, second = first["image"], second["image"]
        assert first.ctypes.data == second.ctypes.data
        assert not first.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            first[...] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            first.flags.writeable = True


def test_keys() -> None:
    cache: Any = st.SharedCache()
    keys = [0, 1, -1, 2**63 - 1, -(2**63), "", "0", "1", "é" * 300, "\0"]
    for number, key in enumerate(keys):
        assert cache.get(key, lambda number=number: number) == number
    assert [cache[key] for key in keys] == list(range(len(keys)))
    assert cache[np.int32(1)] == cache[True] == cache[1]
    for wrong in (1.5, None, b"bytes", (1, 2), 2**63, "\ud800", [1]):
        for call in (cache.get, cache.__getitem__, cache.__contains__, cache.__delitem__):
            with pytest.raises(TypeError, match="a string or an integer of 64 bits, not"):
                call(wrong)


def test_error_of_the_builder() -> None:
    cache: Any = st.SharedCache()
    with pytest.raises(ZeroDivisionError):
        cache.get("key", lambda: 1 / 0)
    with pytest.raises(pickle.PicklingError, match="cannot be pickled"):
        cache.get("key", lambda: lambda: 0)
    with pytest.raises(RuntimeError, match="asks for the same item"):
        cache.get("key", lambda: cache.get("key", no_build))
    with pytest.raises(TypeError, match="callable"):
        cache.get("key", 5)
    assert ("key" in cache, cache.stats()["misses"]) == (False, 5)
    assert cache.get("key", lambda: cache.get("inner", lambda: 2) + 1) == 3
    with pytest.raises(TypeError, match="unexpected keyword"):
        cache.get("key", builder=no_build)


class Interrupted(Exception):  # by a signal, as by KeyboardInterrupt
    pass


def interrupt(*_: object) -> None:
    raise Interrupted


def test_a_call_that_a_signal_interrupts_leaves_the_turn_to_others() -> None:
    cache: Any = st.SharedCache()
    before, interrupted, key = signal.signal(signal.SIGALRM, interrupt), 0, 0
    try:
        while interrupted < 300:
            key += 1
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 50e-6))
                cache.get(key, lambda: 1)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert cache.get(key, lambda: 1) == 1  # does not find its own build
    finally:
        signal.signal(signal.SIGALRM, before)


def test_waiting_for_a_builder_is_interrupted() -> None:
    cache: Any = st.SharedCache()
    started, goes_on = threading.Event(), threading.Event()

    def build() -> int:
        started.set()
        assert goes_on.wait(SECONDS)
        return 1

    builder = threading.Thread(target=lambda: cache.get("key", build))
    builder.start()
    assert started.wait(SECONDS)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Interrupted):
            cache.get("key", no_build)
    finally:
        signal.signal(signal.SIGALRM, before)
    goes_on.set()
    builder.join(SECONDS)
    assert cache["key"] == 1


def test_threads_wait_for_one_builder() -> None:
    cache: Any = st.SharedCache()
    started, goes_on, built, got = threading.Event(), threading.Event(), [], []

    def build(number: int, fails: bool = False) -> int:
        built.append(number)
        started.set()
        assert goes_on.wait(SECONDS)
        if fails:
            raise ValueError("fails")
        return number

    def first() -> None:
        with pytest.raises(ValueError, match="fails"):
            cache.get("key", lambda: build(1, True))

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert started.wait(SECONDS)
    threads += [
        threading.Thread(target=lambda: got.append(cache.get("key", lambda: build(2)))) for _ in range(5)
    ]
    for thread in threads[1:]:
        thread.start()
    assert cache.get("key", lambda: 5, wait=False) == 5  # and the others find it
    goes_on.set()
    for thread in threads:
        thread.join(SECONDS)
    assert (built, got) == ([1], [5] * 5)


def test_the_next_one_builds_after_an_error() -> None:
    cache: Any = st.SharedCache()
    started, goes_on = threading.Event(), threading.Event()

    def fail() -> None:
        started.set()
        assert goes_on.wait(SECONDS)
        raise ValueError("fails")

    def first() -> None:
        with pytest.raises(ValueError, match="fails"):
            cache.get("key", fail)

    failing = threading.Thread(target=first)
    failing.start()
    assert started.wait(SECONDS)
    got: list[int] = []
    waiting = threading.Thread(target=lambda: got.append(cache.get("key", lambda: 2)))
    waiting.start()
    time.sleep(0.02)
    goes_on.set()
    failing.join(SECONDS)
    waiting.join(SECONDS)
    assert got == [2]


def test_least_recently_used_items_go() -> None:
    cache: Any = st.SharedCache(max_bytes=10 * (PLACE + 1024))

    def add(key: int) -> None:
        cache.get(key, lambda: bytes(1024 - 64))

    one = PLACE + 1024
    add(0)
    assert cache.stats()["bytes"] <= one
    for key in range(1, 10):
        add(key)
    for key in (0, 2, 4):
        cache[key]
    for key in range(10, 17):
        add(key)
    assert [key for key in range(17) if key in cache] == [0, 2, 4, *range(10, 17)]
    assert cache.stats()["evictions"] == 7
    cache.set_limit(3 * one)
    assert [key for key in range(17) if key in cache] == [14, 15, 16]
    cache.set_limit(None)
    assert cache.stats()["max_bytes"] is None
    cache.clear()
    assert (len(cache), cache.stats()["bytes"]) == (0, 0)


def test_items_that_are_held_stay() -> None:
    cache: Any = st.SharedCache(max_bytes=4 * 100_000)
    held = {key: cache.get(key, lambda key=key: np.full(80_000, key, np.uint8)) for key in range(4)}
    built = np.full(80_000, 9, np.uint8)
    assert cache.get(9, lambda: built) is built  # no room
    assert 9 not in cache
    assert sorted(key for key in range(9) if key in cache) == [0, 1, 2, 3]
    del held[1]
    assert cache.get(9, lambda: built) is not built
    assert [key for key in range(10) if key in cache] == [0, 2, 3, 9]
    cache.clear()
    for key, array in held.items():
        assert (array == key).all()
    assert cache.get("large", lambda: b"0" * 500_000) == b"0" * 500_000
    assert "large" not in cache


def test_memory_comes_back() -> None:
    cache: Any = st.SharedCache(max_bytes=1 << 20)
    for key in range(30):
        cache.get(key, lambda: bytes(100_000))
    before = live_resources()
    for key in range(300):
        cache.get(key, lambda: bytes(100_000))
    assert live_resources() == before
    cache.clear()
    assert live_resources()[0] == before[0] - 10


def test_many_items_in_many_tables() -> None:
    cache: Any = st.SharedCache()
    for key in range(20_000):
        cache.get(key, lambda key=key: (key, str(key)))
    assert len(cache) == 20_000
    assert all(cache[key] == (key, str(key)) for key in range(20_000))
    assert all(str(key) not in cache for key in range(1000))
    before = live_resources()
    for key in range(0, 20_000, 2):
        del cache[key]
    for key in range(0, 20_000, 2):
        cache.get(key, lambda key=key: -key)
    assert live_resources() == before  # the places are used again
    assert all(cache[key] == (-key if key % 2 == 0 else (key, str(key))) for key in range(20_000))


def test_session_limit_lets_items_go() -> None:
    cache: Any = st.SharedCache()
    st.set_limit(st.stats()["bytes_reserved"] + (64 << 20))
    try:
        for key in range(200):
            array = cache.get(key, lambda key=key: np.full(1 << 20, key % 250, np.uint8))
            assert (array == key % 250).all()
        stats = cache.stats()
        assert stats["evictions"] > 100
        assert 20 < stats["items"] < 70
    finally:
        st.set_limit(None)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1"])
def test_wrong_limits(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_bytes"):
        st.SharedCache(wrong)
    with pytest.raises((TypeError, ValueError), match="max_bytes"):
        st.SharedCache().set_limit(wrong)
    with pytest.raises(ValueError, match="label"):
        st.SharedCache(label="l" * 50)


def test_an_assignment_is_refused() -> None:
    with pytest.raises(TypeError, match=r"filled by get\(key, build\)"):
        st.SharedCache()["a"] = 1


def test_it_travels_as_a_queue_does() -> None:
    cache: Any = st.SharedCache()
    with st._core.SendScope() as message:
        content = st.multiprocessing.reducer.ForkingPickler.dumps(cache)
        message.delivered()
    other = pickle.loads(content)
    other.get("key", lambda: np.arange(5))
    assert cache["key"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="not by pickle"):
        pickle.dumps(cache)
