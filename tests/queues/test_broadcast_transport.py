"""What a broadcast carries, and what carries a broadcast."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.live_resources import assert_no_leaks

SECONDS = 60


def test_item_that_cannot_be_pickled_changes_nothing() -> None:
    with assert_no_leaks():
        b = st.Broadcast(2)
        reader = b.reader()
        with pytest.raises((AttributeError, pickle.PicklingError, TypeError)):
            b.put([st.ones(3), threading.Lock()])
        assert reader.lag() == 0
        del b, reader


def test_item_that_fails_to_load_is_passed() -> None:
    with assert_no_leaks():
        b = st.Broadcast(2)
        readers = b.reader(), b.reader()
        b.put([st.ones(3), Fails(), st.ones(4)])
        b.put("next")
        for reader in readers:
            with pytest.raises(ZeroDivisionError):
                reader.get()
            assert reader.get() == "next"
        del b, readers, reader


class Fails:
    def __reduce__(self):
        return divmod, (1, 0)


def test_message_of_a_queue_inside_is_consumed() -> None:
    """While an item of a broadcast is loaded, a queue's message that is loaded, too, keeps its own rules."""
    with assert_no_leaks():
        global inner
        inner = st.Queue()
        inner.put([st.full(3, 5)])
        b = st.Broadcast(2)
        readers = b.reader(), b.reader()
        b.put([st.full(2, 1), GetsFromQueue(), st.full(2, 2)])
        first, got, last = readers[0].get()
        assert got.tolist() == [5] * 3
        assert (first.tolist(), last.tolist()) == ([1, 1], [2, 2])
        inner.put([st.full(3, 6)])
        first, got, last = readers[1].get()
        assert got.tolist() == [6] * 3
        assert (first.tolist(), last.tolist()) == ([1, 1], [2, 2])
        del b, readers, first, got, last, inner


class GetsFromQueue:
    def __reduce__(self):
        return _get_inner, ()


def _get_inner() -> object:
    return inner.get()[0]


def test_broadcast_is_not_copied_or_pickled() -> None:
    b = st.Broadcast(1)
    for fail in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match="only be shared between processes"):
            fail(b)
        with pytest.raises(TypeError, match="send its broadcast"):
            fail(b.reader())


class Steps(st.Broadcast):
    def __init__(self, name: str, *, makes: bool = True) -> None:
        if makes:
            super().__init__(maxsize=2)
        self.name = name

    def __getstate__(self):
        return {"parent": super().__getstate__(), "name": self.name}

    def __setstate__(self, state) -> None:
        super().__setstate__(state["parent"])
        self.name = state["name"]


def test_subclass_has_its_own_parameters_and_state() -> None:
    b, through = Steps("steps"), st.Queue()
    through.put(b)
    same = through.get()
    assert (type(same), same.name, same.maxsize) == (Steps, "steps", 2)
    reader = b.reader()
    same.put(3)
    assert reader.get() == 3
    made = Steps("without", makes=False)
    for use in (made.reader, made.close, lambda: made.put(1), lambda: made.readers):
        with pytest.raises(RuntimeError, match=r"super\(\).__init__"):
            use()
    with pytest.raises(RuntimeError, match="twice"):
        b.__init__("again")


@pytest.mark.parametrize("carrier", [mp.Queue, mp.SimpleQueue, st.Queue])
def test_broadcast_travels_through_queues(carrier) -> None:
    b, through = st.Broadcast(3, "drop_oldest"), carrier()
    through.put([b])
    (again,) = through.get()
    assert (again.maxsize, again.on_full) == (3, "drop_oldest")
    reader = b.reader()
    again.put("there")
    assert reader.get() == "there"
    if hasattr(through, "close"):
        through.close()


def test_broadcast_travels_through_itself_and_a_name() -> None:
    with assert_no_leaks():
        b = st.Broadcast(3)
        reader = b.reader()
        b.put(b)
        again = reader.get()
        again.put(1)
        assert reader.get() == 1
        st.publish("test-broadcast", b)
        try:
            st.attach("test-broadcast").put("found")
            assert reader.get() == "found"
        finally:
            st.unpublish("test-broadcast")
        del b, reader, again
