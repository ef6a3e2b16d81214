"""What arrives when an object is put."""

from __future__ import annotations

import asyncio
import collections
import enum
import gc
import queue
import threading
import weakref
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import shmtensor as st
from shmtensor._pickling import MessagePickler, dumps_by
from tests.helpers.live_resources import assert_no_leaks


def through(item: object) -> object:
    q = st.Queue()
    q.put(item)
    return q.get()


class Colour(enum.Enum):
    RED = 1


class Pair(tuple):  # noqa: SLOT001 - an attribute is what the test is about
    pass


class Text(str):  # noqa: SLOT000 - as above
    pass


simple = some.none() | some.booleans() | some.integers() | some.floats() | some.binary() | some.text()
anything = some.recursive(
    simple | some.complex_numbers(),
    lambda inner: some.lists(inner) | some.tuples(inner, inner) | some.dictionaries(some.text(), inner),
    max_leaves=20,
)


@pytest.mark.thorough
@settings(deadline=None, max_examples=300)
@given(anything)
def test_any_item_arrives_equal(item: object) -> None:
    arrived = through(item)
    assert type(arrived) is type(item)
    assert repr(arrived) == repr(item)  # NaN is not equal to itself


@pytest.mark.parametrize(
    "item",
    [
        *(b"x" * 95, b"x" * 96, b"x" * 97, b"x" * 1_000_000, "y" * 96, "y" * 97, "\u20ac" * 40, "\ud800"),
        *(2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**4000, (), ((),), (1, (2,)), (1.5, None, b"", "")),
        *(tuple(range(1000)), (b"z" * 70_000, "w" * 70_000), bytearray(b"abc"), memoryview, Colour.RED),
        *(Fraction(1, 3), Text("a"), Pair((1, 2)), {1: {2: [3]}}, collections.OrderedDict(a=1), Ellipsis),
    ],
    ids=lambda item: repr(item)[:20],
)
def test_edge_cases_arrive_equal(item: object) -> None:
    arrived = through(item)
    assert type(arrived) is type(item)
    assert arrived == item


def test_tensor_is_the_same_memory() -> None:
    tensor = st.ones((3, 4))
    arrived = through(tensor)
    arrived[0] = 7
    assert tensor.tolist()[0] == [7] * 4
    assert arrived.storage() is tensor.storage()


@pytest.mark.parametrize(
    "view",
    [
        *(lambda t: t[1:, ::2], lambda t: t.T, lambda t: t[2, 3], lambda t: t[:0], lambda t: t[None, None]),
        lambda t: t.reshape(1, 1, 1, 1, 4, 6),
        lambda t: t.T.reshape((6, 4, 1, 1))[::-1, ::2],
        lambda t: t[:, None, :, None, None, None][::2, :, ::-1],
    ],
)
def test_view_keeps_shape_and_strides(view) -> None:
    tensor = view(st.asarray(np.arange(24.0).reshape(4, 6)))
    arrived = through(tensor)
    assert (arrived.shape, arrived.dtype) == (tensor.shape, tensor.dtype)
    assert arrived.is_contiguous() or arrived.strides == tensor.strides
    assert arrived.storage() is tensor.storage()
    np.testing.assert_array_equal(arrived.numpy(), tensor.numpy())


def test_readonly_tensor_stays_readonly() -> None:
    arrived = through(st.frombuffer(b"constant", np.uint8))
    assert arrived.readonly
    assert bytes(arrived.numpy()) == b"constant"


@pytest.mark.parametrize("dtype", [[("a", "i4"), ("b", "f8")], ">f4", "S7", "M8[s]"])
def test_dtype_without_a_code_arrives(dtype) -> None:
    tensor = st.zeros(5, np.dtype(dtype))
    assert through(tensor).dtype == tensor.dtype


def test_tensor_that_occurs_twice_arrives_as_one() -> None:
    tensor = st.ones(3)
    arrived = through([tensor, {"again": tensor}])
    assert arrived[0] is arrived[1]["again"]


def test_tensors_in_containers_are_the_same_memory() -> None:
    with assert_no_leaks():
        tensors = [st.full(3, number) for number in range(100)]
        arrived = through({"all": tensors, "first": tensors[0][1:]})
        assert [t.tolist() for t in arrived["all"]] == [[n] * 3 for n in range(100)]
        arrived["first"][0] = 9
        assert tensors[0].tolist() == [0, 9, 0]
        del tensors, arrived


def _refuse(item: object) -> bytes:
    raise AssertionError(f"{item} was pickled")


@pytest.mark.parametrize("kind", [tuple, list])
def test_flat_sequence_of_tensors_is_not_pickled(kind) -> None:
    with assert_no_leaks():
        q = st.Queue()
        q._dumps = _refuse
        tensor = st.asarray(np.arange(6.0).reshape(2, 3))
        items = kind([tensor, tensor.T, 7, "text", tensor[1:].as_readonly(), None, b"x" * 200, st.ones(5)])
        q.put(items)
        del items
        arrived = q.get()
        assert type(arrived) is kind
        assert arrived[2:4] + arrived[5:7] == kind([7, "text", None, b"x" * 200])
        assert (arrived[1].shape, arrived[4].readonly, arrived[7].tolist()) == ((3, 2), True, [1] * 5)
        arrived[0][1, 2] = 50
        assert arrived[1].tolist()[2][1] == arrived[4].tolist()[0][2] == tensor.tolist()[1][2] == 50
        q.put(arrived)
        del q, arrived, tensor  # unread


@pytest.mark.parametrize("odd", [{}, 2**70, "\ud800", st.from_numpy(np.ones(3)), (1,), None])
def test_flat_list_of_tensors_with_an_odd_item_is_pickled(odd) -> None:
    with assert_no_leaks():
        tensors = [st.full(3, number) for number in range(4)]
        items = [*tensors, tensors[0] if odd is None else odd]
        arrived = through(items)
        assert [t.tolist() for t in arrived[:4]] == [[n] * 3 for n in range(4)]
        assert all(a.storage() is t.storage() for a, t in zip(arrived, tensors, strict=False))
        if odd is None:
            assert arrived[4] is arrived[0]
        elif isinstance(odd, st.Tensor):
            assert arrived[4].tolist() == odd.tolist()
        else:
            assert arrived[4] == odd
        del tensors, items, arrived


@pytest.mark.parametrize("kind", [tuple, list])
def test_object_that_occurs_again_in_a_flat_sequence_is_sent_once(kind) -> None:
    with assert_no_leaks():
        q, broadcast = st.Queue(), st.Broadcast(2)
        reader = broadcast.reader()
        q._dumps = _refuse
        short = [f"{number} items" for number in range(50)]
        once = ["x" * 1_000_000, b"y" * 1_000_000, st.ones(3), *short]
        equal = ["x" * 1_000_000]  # not the same object
        items = kind([*once, 1, None, *once[::-1], 1.5, *equal] * 5)
        before = st.stats()["bytes_live"]
        q.put(items)
        broadcast.put(items)
        assert st.stats()["bytes_live"] - before < 8_000_000
        for arrived in (q.get(), reader.get()):
            assert type(arrived) is kind
            for number, item in enumerate(once):
                places = [place for place, one in enumerate(items) if one is item]
                assert len(places) == 10
                assert {id(arrived[place]) for place in places} == {id(arrived[number])}
                assert isinstance(item, st.Tensor) or arrived[number] == item
            assert arrived[len(once) : len(once) + 2] == kind([1, None])
            assert arrived[-2:] == kind([1.5, *equal])
            assert arrived[-1] is not arrived[0]
            del arrived
        reader.close()
        broadcast.close()
        del q, broadcast, reader, items, once, item


def test_large_array_is_copied_once_and_writable() -> None:
    with assert_no_leaks():
        array = np.arange(1_000_000.0)
        arrived = through({"x": array, "small": np.ones(3)})
        array[:] = 0
        assert arrived["x"][-1] == 999_999
        arrived["x"][0] = 5
        arrived["small"][0] = 2
        assert st.stats()["bytes_live"] >= array.nbytes
        del arrived


def test_item_that_cannot_be_pickled_leaves_nothing() -> None:
    with assert_no_leaks():
        q = st.Queue()
        with pytest.raises((TypeError, AttributeError)):
            q.put([st.ones(1000), np.ones(100_000), threading.Lock()])
        assert q.empty()
        q.put(1)
        assert q.get() == 1
        del q


class FailsToLoad:
    def __init__(self, tensor: st.Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self):
        return _fail, (self.tensor, st.zeros(10))


def _fail(*_: object) -> None:
    raise RuntimeError("on purpose")


def test_item_that_cannot_be_unpickled_leaves_nothing() -> None:
    with assert_no_leaks():
        q = st.Queue()
        q.put([FailsToLoad(st.ones(10)), st.ones(20)])
        with pytest.raises(RuntimeError, match="on purpose"):
            q.get()
        gc.collect()
        assert q.empty()
        q.put(2)
        assert q.get() == 2
        del q


def test_get_many_returns_the_items_before_one_that_cannot_be_unpickled() -> None:
    with assert_no_leaks():
        q = st.Queue()
        bad = FailsToLoad(st.ones(10))
        q.put_many([1, [st.full(3, 2)], bad, 4, bad, bad, 7])
        first, second = q.get_many()
        assert (first, second[0].tolist()) == (1, [2, 2, 2])
        with pytest.raises(RuntimeError, match="on purpose"):
            q.get_nowait()
        assert q.get_many() == [4]
        with pytest.raises(RuntimeError, match="on purpose"):
            q.get_many()
        with pytest.raises(RuntimeError, match="on purpose"):
            q.get_many()  # of its first item
        assert q.get_many() == [7]
        with pytest.raises(queue.Empty):
            q.get_nowait()
        del q, second, bad


def test_error_of_get_many_waits_for_the_next_get() -> None:
    with assert_no_leaks():
        q = st.Queue()
        q.put_many([1, FailsToLoad(st.ones(10)), 3])
        assert q.get_many() == [1]
        assert q.qsize() == 1
        q.put(4)
        q.shutdown()
        with pytest.raises(RuntimeError, match="on purpose"):
            asyncio.run(q.aget())
        assert list(q) == [3, 4]
        q = st.Queue()
        q.put_many([1, FailsToLoad(st.ones(10))])
        assert q.get_many() == [1]
        del q


class Interrupts:
    def __reduce__(self) -> tuple[object, ...]:
        return _interrupt, ()


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("redeliver", [False, True])
def test_interrupt_is_not_kept_for_the_next_get(redeliver: bool) -> None:
    q = st.Queue(redeliver=redeliver)
    q.put_many([1, Interrupts()])
    with pytest.raises(KeyboardInterrupt):
        q.get_many()
    if redeliver:
        assert q.qsize() == 2
        assert q.get() == 1
    else:
        assert q.empty()


def test_exception_at_the_end_of_a_pickle_leaves_no_memo() -> None:
    """Regression: after a signal handler had raised there, the next pickle referred to the last one."""

    class Interrupted(MessagePickler):
        interrupts = 1

        def clear_memo(self) -> None:
            if type(self).interrupts:
                type(self).interrupts -= 1
                raise KeyboardInterrupt
            super().clear_memo()

    q: st.Queue = st.Queue()
    shared = {"an object": "of both messages"}
    only_first = FailsToLoad(st.ones(3))
    freed = weakref.ref(only_first)
    gc.disable()
    try:
        q._dumps = dumps_by(Interrupted)
        with suppress(KeyboardInterrupt):
            q.put([shared, only_first])
        del only_first
        assert freed() is None, "the memo keeps it"
    finally:
        gc.enable()
    assert q.empty()
    q.put([shared])
    assert q.get() == [shared]


class PutsIntoAnother:
    def __init__(self, q: st.Queue) -> None:
        self.q = q

    def __reduce__(self):
        self.q.put([st.ones(2), "inner"])
        return list, ((1, 2),)


def test_reducer_may_put_into_a_queue() -> None:
    with assert_no_leaks():
        inner = st.Queue()
        assert through([st.zeros(3), PutsIntoAnother(inner), st.zeros(4)])[1] == [1, 2]
        assert inner.get()[1] == "inner"
        del inner


def test_reducer_registered_later_is_used() -> None:
    class Special:
        pass

    from multiprocessing.reduction import ForkingPickler

    globals()["Special"] = Special
    ForkingPickler.register(Special, lambda _: (int, ("5",)))
    assert through([Special()]) == [5]
    del ForkingPickler._extra_reducers[Special]
    assert through([1.5 + 2j]) == [1.5 + 2j]


def test_storage_arrives() -> None:
    storage = st.Storage(100)
    memoryview(storage)[:3] = b"abc"
    assert through(storage) is storage
    assert through([storage])[0] is storage
