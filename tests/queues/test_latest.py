"""The newest value, in one process."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.live_resources import assert_no_leaks, live_resources

SECONDS = 60
Pair = namedtuple("Pair", "first second")  # noqa: PYI024  # as programs have it


def test_values_follow_each_other() -> None:
    with assert_no_leaks():
        latest: Any = st.Latest()
        assert (latest.get(), latest.version, latest.received) == (None, 0, 0)
        for number in range(1, 6):
            latest.set(number)
            assert (latest.version, latest.received) == (number, number - 1)
            assert (latest.get(), latest.received) == (number, number)
        latest.set(None)
        assert (latest.get(), latest.version) == (None, 6)
        assert repr(latest) == "<Latest: version 6>"
        assert st.Latest("first").get() == "first"
        del latest


@pytest.mark.parametrize(
    "value", [True, 1.5, "text", "t" * 5000, b"b" * 5000, (1, "a"), {"key": [1, 2]}, 1 << 100]
)
def test_any_object(value: object) -> None:
    latest = st.Latest(value)
    assert latest.get() == value
    assert latest.get() is latest.get()


def test_older_values_are_freed_by_the_last_holder() -> None:
    latest = st.Latest(st.zeros(1000))
    before = live_resources()
    for number in range(10):
        latest.set({"weights": st.full(1000, number), "array": np.full(100_000, number)})
    held = latest.get()
    resources = live_resources()
    latest.set(st.zeros(1000))
    assert live_resources()[0] > before[0] + 1
    assert (held["weights"].tolist()[0], held["array"][-1]) == (9, 9)
    assert not held["array"].flags.writeable
    del held
    assert live_resources()[0] > before[0] + 1  # `get` would return it again
    latest.get()
    assert live_resources() == before
    assert resources != before


def test_a_tensor_is_a_handle() -> None:
    tensor = st.zeros(5)
    latest = st.Latest(tensor)
    latest.get()[:] = 3
    assert tensor.tolist() == [3] * 5
    latest.set(tensor.as_readonly())
    with pytest.raises(ValueError, match="read-only"):
        latest.get()[:] = 4


def test_waiting_for_a_newer_one() -> None:
    latest: Any = st.Latest()
    with pytest.raises(TimeoutError, match=r"no value after version 0 was set within 0\.01 s"):
        latest.get(after=0, timeout=0.01)
    timer = threading.Timer(0.05, latest.set, ["new"])
    timer.start()
    assert latest.get(after=latest.received, timeout=SECONDS) == "new"
    timer.join()
    assert latest.get(after=0) is latest.get(after=-5) is latest.get()
    assert latest.get(after=np.int64(0)) == "new"
    with pytest.raises(TimeoutError, match="after version 1 "):
        latest.get(after=np.int64(1), timeout=0)
    with pytest.raises(TimeoutError):
        latest.get(after=5, timeout=0)
    for bad in ("x", 1.5):
        with pytest.raises(TypeError, match="after must be an integer"):
            latest.get(after=bad)
    with pytest.raises(ValueError, match="timeout"):
        latest.get(after=1, timeout=-1)


def test_another_object_begins_with_the_newest() -> None:
    first: Any = st.Latest("old")
    first.set("new")
    with st._core.SendScope() as message:
        content = st.multiprocessing.reducer.ForkingPickler.dumps(first)
        message.delivered()
    second = pickle.loads(content)
    assert (second.received, second.version, second.get(), second.received) == (0, 2, "new", 2)
    second.set("newest")
    assert first.get() == "newest"
    with pytest.raises(RuntimeError, match="not by pickle"):
        pickle.dumps(first)


def test_event_loop_goes_on_while_a_task_waits() -> None:
    latest: Any = st.Latest(1)

    async def wait() -> Any:
        task = asyncio.create_task(latest.aget(after=1))
        await asyncio.sleep(0)
        latest.set(2)
        cancelled = asyncio.create_task(latest.aget(after=2))
        await asyncio.sleep(0.02)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return await asyncio.wait_for(task, SECONDS), await latest.aget()

    assert asyncio.run(wait()) == (2, 2)


def test_next_gives_other_memory_of_the_same_structure() -> None:
    value = {
        "tensor": st.zeros((2, 3), "float32"),
        "array": np.zeros(100_000),
        "layers": [st.zeros(4), (np.ones(2), "name")],
        "pair": Pair(st.zeros(1), 5),
        "ordered": OrderedDict(a=st.zeros(1)),
    }
    latest = st.Latest(value)
    before = latest.get()
    with latest.next() as tree:
        assert latest.get() is before
        assert tree["tensor"].shape == (2, 3)
        assert tree["tensor"].dtype == np.float32
        tree["tensor"][:], tree["array"][:], tree["layers"][0][:] = 1, 2, 3
        tree["layers"][1][0][:] = 4
        tree["pair"].first[:] = 6
    after = latest.get()
    assert latest.version == 2
    assert before["tensor"].tolist() == [[0] * 3] * 2
    assert after["tensor"].tolist() == [[1] * 3] * 2
    assert (after["array"][0], after["layers"][0].tolist()) == (2, [3] * 4)
    assert after["layers"][1][0].tolist() == [4, 4]
    assert after["layers"][1][1] == "name"
    assert isinstance(after["pair"], Pair)
    assert (after["pair"].first.tolist(), after["pair"].second) == ([6], 5)
    assert type(after["ordered"]) is OrderedDict


def test_next_keeps_the_class_of_arrays() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    names = np.array(["a", None], object)
    latest = st.Latest({"masked": masked, "records": np.rec.array([(1, 2.0)]), "names": names})
    with latest.next() as tree:
        tree["masked"][:] = np.ma.masked_array([3.0, 4.0], [True, False])
        tree["records"].f0, tree["names"][:] = 5, ["b", "c"]
    after = latest.get()
    assert after["masked"].tolist() == [None, 4.0]
    assert after["records"].f0.tolist() == [5]
    assert after["names"].tolist() == ["b", "c"]


def test_next_uses_the_memory_of_values_that_are_not_used() -> None:
    latest = st.Latest(st.zeros(1 << 20))
    places = set()
    for number in range(10):
        with latest.next() as tensor:
            tensor[:] = number
        places.add(tensor.storage().data_ptr())
        del tensor
    assert len(places) <= 3


def test_next_that_fails_sets_nothing() -> None:
    latest: Any = st.Latest(st.zeros(3))

    def fail() -> None:
        with latest.next() as tensor:
            tensor[:] = 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (latest.version, latest.get().tolist()) == (1, [0] * 3)
    with pytest.raises(ValueError, match="none was set"), st.Latest().next():
        pass


def test_threads_set_and_get() -> None:
    latest: Any = st.Latest((0, np.zeros(20_000)))
    errors: list[object] = []

    def read() -> None:
        last = 0
        while last < 999:
            number, array = latest.get()
            if number < last or (array != number).any():
                errors.append((number, last, array))
            last = number

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 1000):
        latest.set((number, np.full(20_000, float(number))))
    for reader in readers:
        reader.join(SECONDS)
    assert not errors


def test_limited_memory_is_an_error_and_loses_nothing() -> None:
    latest = st.Latest("small")
    st.set_limit(1)
    try:
        with pytest.raises(st.OutOfSharedMemory):
            latest.set(np.zeros(100 << 20, "u1"))
    finally:
        st.set_limit(None)
    assert latest.get() == "small"
