"""`once` and `publish` of private arrays: one copy in shared memory, also for the process that built them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.children import end
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.queues import take

ARRAYS = {
    "large": np.arange(100_000),
    "small": np.arange(3.0),
    "0-d": np.array(7.0),
    "Fortran": np.asfortranarray(np.ones((30, 40))),
    "reversed": np.arange(100)[::-1],
    "times": np.arange(100).astype("datetime64[s]"),
    "records": np.zeros(50, [("a", "i4"), ("b", "f8")]),
}


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("call", ["once", "publish"])
def test_array_is_copied_once_and_read_only(kind, call) -> None:
    original = ARRAYS[kind]
    with assert_no_leaks():
        if call == "once":
            first = st.once("array", lambda: {"a": [original]})["a"][0]
        else:
            st.publish("array", {"a": [original]})
            first = st.attach("array")["a"][0]
        second = st.attach("array")["a"][0]
        np.testing.assert_array_equal(first, original)
        assert first.dtype == original.dtype
        assert address(first) == address(second), "the same memory"
        assert not first.flags.writeable
        assert original.flags.writeable, "the caller's own is not changed"
        st.unpublish("array")
        np.testing.assert_array_equal(second, original)
        del first, second


def test_builder_keeps_no_private_copy() -> None:
    built = []

    def build() -> dict:
        array = np.ones(1000)
        built.append(weakref.ref(array))
        return {"array": array, "tensor": st.ones(3)}

    with assert_no_leaks():
        found = st.once("built", build)
        gc.collect()
        assert built[0]() is None
        found["tensor"][0] = 5
        assert st.attach("built")["tensor"][0].item() == 5, "tensors are shared, and writable"
        del found
        st.unpublish("built")


def test_object_that_cannot_be_loaded_fails_in_the_builder() -> None:
    class Broken:
        def __reduce__(self):
            return int, ("no number",)

    with assert_no_leaks():
        with pytest.raises(ValueError, match="no number"):
            st.once("broken", Broken)
        with pytest.raises(st.BuildError, match="no number"):
            st.attach("broken")
        st.unpublish("broken")


def rank(results, done) -> None:
    found = st.once("ranks", lambda: {"array": np.ones(1_000_000)})
    results.put((float(found["array"].sum()), found["array"].flags.writeable))
    done.get()


def test_ranks_have_one_copy(ctx) -> None:
    st.ones(1)
    before = st.stats()["bytes_live"]
    results, done = ctx.SimpleQueue(), ctx.SimpleQueue()
    processes = [ctx.Process(target=rank, args=(results, done)) for _ in range(3)]
    for process in processes:
        process.start()
    assert {take(results) for _ in processes} == {(1e6, False)}
    array = st.attach("ranks")["array"]
    assert 8_000_000 <= st.stats()["bytes_live"] - before < 8_200_000
    for _ in processes:
        done.put(None)
    for process in processes:
        end(process)
    assert array.sum() == 1e6
    st.unpublish("ranks")


def test_queue_that_once_makes_is_usable_by_its_maker() -> None:
    with assert_no_leaks():
        queue = st.once("queue", st.Queue)
        queue.put("a message")
        assert st.attach("queue").get(timeout=30) == "a message"
        st.unpublish("queue")
        del queue
