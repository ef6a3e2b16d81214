"""One cache that worker processes fill: whole data sets, deaths, forks, names."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.containers import cache_storm
from tests.helpers.children import end, fork, fork_idle, kill, kill_manager_of, run_beside, wait_until
from tests.helpers.live_resources import assert_no_leaks

SECONDS = 60
COUNT = 40

_shared: Any = None


@pytest.fixture(autouse=True)
def _forgets() -> Iterator[None]:
    yield
    use(None)


class Records:
    """Records that are decoded when they are first used, by whichever process comes first."""

    def __init__(self) -> None:
        self.cache: Any = st.SharedCache()
        self.decoded = st.zeros(COUNT, "int64")

    def decode(self, index: int) -> Any:
        st.atomic.add(self.decoded, index, 1)
        time.sleep(0.002)
        return {"image": np.full((30, 40), index, np.uint8), "label": str(index)}

    def __getitem__(self, index: int) -> Any:
        return self.cache.get(index, lambda: self.decode(index))


def use(records: Records | None) -> None:
    """Keep the records, as the initializer of a pool does."""
    global _shared
    _shared = records


def check(index: int) -> int:
    record = _shared[index]
    assert (record["image"] == index).all()
    assert not record["image"].flags.writeable
    return int(record["label"])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", "server"])
def test_pool_builds_each_item_once(method: str) -> None:
    with assert_no_leaks():
        records = Records()
        order = [*range(COUNT), *reversed(range(COUNT))]
        for _ in range(2):  # the second pool finds what the first one has built
            with mp.get_context(method).Pool(3, use, (records,)) as pool:
                assert pool.map(check, order, chunksize=1) == order
                pool.close()
                pool.join()
            assert records.decoded.tolist() == [1] * COUNT
        use(records)
        assert [check(index) for index in range(COUNT)] == list(range(COUNT))
        assert records.decoded.tolist() == [1] * COUNT
        use(None)
        del records, pool


def test_workers_of_both_start_methods_fill_one_cache() -> None:
    records = Records()
    with (
        mp.get_context("fork").Pool(2, use, (records,)) as first,
        mp.get_context("spawn").Pool(2, use, (records,)) as second,
    ):
        results = [pool.map_async(check, range(COUNT), chunksize=1) for pool in (first, second)]
        assert [result.get(SECONDS) for result in results] == [list(range(COUNT))] * 2
    assert records.decoded.tolist() == [1] * COUNT


def get_all(records: Records) -> None:
    use(records)
    for index in range(COUNT):
        check(index)


def test_items_outlive_the_process_that_built_them() -> None:
    with assert_no_leaks():
        records = Records()
        process: Any = mp.get_context("fork").Process(target=get_all, args=(records,))
        process.start()
        end(process)
        get_all(records)
        kill_manager_of(st.stats()["session"])
        get_all(records)
        process = mp.get_context("spawn").Process(target=get_all, args=(records,))
        process.start()
        end(process)
        assert records.decoded.tolist() == [1] * COUNT
        use(None)
        del records, process


def build_endlessly(cache: Any, started: Any) -> None:
    def build() -> Any:
        started.release()
        while True:
            signal.pause()

    cache.get("key", build)


@pytest.mark.parametrize("waiters", [0, 3])
@pytest.mark.parametrize("without_manager", [False, True])
def test_killed_builder_is_succeeded(waiters: int, without_manager: bool) -> None:
    cache, started, builds = st.SharedCache[Any](), st.Semaphore(0), st.zeros(1, "int64")

    def get() -> None:
        def build() -> Any:
            st.atomic.add(builds, 0, 1)
            return np.full(5000, 7)

        assert (cache.get("key", build) == 7).all()

    builder = fork(lambda: build_endlessly(cache, started))
    assert started.acquire(timeout=SECONDS)
    waiting = [fork(get) for _ in range(waiters)]
    time.sleep(0.05 if waiters else 0)
    assert builds[0] == 0
    if without_manager:
        kill_manager_of(st.stats()["session"])
    kill(builder)
    for pid in waiting:
        assert os.waitpid(pid, 0)[1] == 0
    get()
    assert builds[0] == 1


def test_stopped_builder_delays_only_those_that_wait_for_it() -> None:
    cache, started = st.SharedCache[Any](), st.Semaphore(0)
    builder = fork(lambda: build_endlessly(cache, started))
    assert started.acquire(timeout=SECONDS)
    os.kill(builder, signal.SIGSTOP)
    assert cache.get("other", lambda: 1) == 1
    assert cache.get("key", lambda: 2, wait=False) == 2
    assert cache["key"] == 2
    kill(builder)
    assert cache.get("key", lambda: 3) == 2


def test_cache_is_inherited_by_fork() -> None:
    records = Records()
    get_all(records)
    records.cache.get("mine", lambda: "parent")

    def child() -> None:
        get_all(records)
        assert records.cache.get("mine", lambda: "child") == "parent"
        assert records.cache.get("new", lambda: np.arange(1000)).sum() == 499_500

    for _ in range(2):
        pid = fork(child)
        assert os.waitpid(pid, 0)[1] == 0
    assert records.cache["new"].sum() == 499_500
    assert records.decoded.tolist() == [1] * COUNT


def test_forked_child_keeps_what_its_parent_got() -> None:
    cache: Any = st.SharedCache()
    held = [cache.get("held", lambda: np.full(50_000, 3, np.uint8))]
    read, write = os.pipe()

    def child() -> None:
        assert os.read(read, 1) == b"x"
        assert (held[0] == 3).all()
        assert "held" not in cache

    pid = fork(child)
    cache.clear()
    held.clear()
    for key in range(100):
        cache.get(key, lambda key=key: np.full(50_000, key, np.uint8))
    os.write(write, b"x")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(read)
    os.close(write)


def test_fork_in_a_build() -> None:
    """The parent builds; the child, which is not the builder, waits for it as others do."""
    cache: Any = st.SharedCache()
    pids = []

    def build() -> str:
        pids.append(fork(lambda: time.sleep(0.01)))
        return "parent"

    assert cache.get("key", build) == "parent"
    assert os.waitpid(pids[0], 0)[1] == 0
    assert cache["key"] == "parent"


def test_child_that_leaves_a_build_does_not_end_it() -> None:
    cache: Any = st.SharedCache()

    def child() -> None:
        assert cache.get("key", lambda: "child") == "parent"

    def build() -> str:
        pid = os.fork()
        if pid == 0:
            raise KeyboardInterrupt
        assert os.waitpid(pid, 0)[1] == 0
        waiting = fork(child)
        time.sleep(0.02)
        assert "key" not in cache
        pids.append(waiting)
        return "parent"

    pids: list[int] = []
    try:
        found = cache.get("key", build, wait=True)
    except KeyboardInterrupt:
        os._exit(0)
    assert found == "parent"
    assert os.waitpid(pids[0], 0)[1] == 0


def test_another_program_attaches_it() -> None:
    records = Records()
    get_all(records)
    st.publish("cache of test", records.cache)
    done = run_beside(
        __file__, "attached_cache", "cache of test", env={"SHMTENSOR_SESSION": st.stats()["session"]}
    )
    assert done.returncode == 0, done
    st.unpublish("cache of test")
    assert records.cache["from elsewhere"].tolist() == [1, 2, 3]
    assert records.decoded.tolist() == [1] * COUNT


def test_held_items_survive_eviction_by_others() -> None:
    cache: Any = st.SharedCache(max_bytes=1 << 20)
    held = cache.get("held", lambda: np.full(50_000, 3, np.uint8))

    def fill() -> None:
        for key in range(60):
            cache.get(key, lambda key=key: np.full(50_000, key, np.uint8))

    pid = fork(fill)
    assert os.waitpid(pid, 0)[1] == 0
    assert cache.stats()["evictions"] > 30
    assert "held" in cache
    assert (held == 3).all()
    assert (cache[59] == 59).all()


def test_holder_that_is_killed_lets_its_items_be_evicted() -> None:
    cache: Any = st.SharedCache(max_bytes=300_000)
    held = []

    def hold() -> None:
        held.extend(cache.get(key, lambda key=key: np.full(90_000, key, np.uint8)) for key in range(3))

    holder = fork_idle(hold)
    built = np.full(90_000, 9, np.uint8)
    assert cache.get(9, lambda: built) is built  # no room
    kill(holder)
    wait_until(lambda: cache.get(9, lambda: built) is not built, SECONDS, "an item without a holder")
    assert (cache[9] == 9).all()


def test_kills_tear_nothing() -> None:
    seen = cache_storm.run(20, 8_000_000)
    assert seen.longest[1] > 20
    live = max(one[0] for one in seen.memory)
    assert live < seen.max_bytes + (cache_storm.WORKERS + 2) * (cache_storm.HELD + 2) * seen.largest
