"""Promise 11: sending does not change the sender's objects, and errors are raised in the caller."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from shmtensor.multiprocessing._pickles import loads_or_release
from tests.helpers.children import wait_until


class Unpicklable:
    def __reduce__(self):
        raise RuntimeError("this cannot be pickled")


@pytest.fixture(params=["Queue", "SimpleQueue", "JoinableQueue", "Pipe"])
def put_and_get(request):
    if request.param == "Pipe":
        receiver, sender = mp.Pipe(duplex=False)
        yield sender.send, receiver.recv
        receiver.close()
        sender.close()
        return
    queue = getattr(mp, request.param)()
    ends = [queue.put, queue.get]
    yield ends
    queue.close()
    ends.clear()  # pytest keeps the list until the leaks are checked


def test_unpicklable_item_raises_immediately_and_queue_still_works(strategy, put_and_get) -> None:
    put, get = put_and_get
    tensor = st.ones(100)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="cannot be pickled"):
            put([tensor, st.from_numpy(np.ones(50)), Unpicklable()])
    assert st.stats()["in_flight"] == 0, "the tickets of the unsent message are cancelled"
    put([tensor, "fine"])
    back, word = get()
    assert word == "fine"
    assert back.storage() is tensor.storage()


class NotToBeRead:
    def __reduce__(self):
        return fail_to_read, ()


def fail_to_read():
    raise ImportError("this cannot be read")


def test_tensors_of_an_unreadable_item_are_freed(strategy, put_and_get) -> None:
    """Regression: tensors after the failing item in a message stayed allocated."""
    put, get = put_and_get
    kept = st.ones(100)
    empty = blocks()
    dtype = np.dtype([("x", "i4")])  # a dtype that is pickled in addition to the handle
    for _ in range(3):
        unread = [st.ones(1000), st.zeros(7, dtype), [st.Storage(5)], kept, b"bytes", kept[5:]]
        put([st.ones(10), NotToBeRead(), unread])
        del unread
        with pytest.raises(ImportError, match="cannot be read"):
            get()
    assert (blocks(), st.stats()["in_flight"]) == (empty, 0)
    put(kept)
    assert get().storage() is kept.storage()
    assert (kept.numpy() == 1).all()


def test_unreadable_item_waits_once_for_a_silent_manager(monkeypatch) -> None:
    """Each of a hundred handles would wait ten seconds."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    asked = []

    def no_answer(handle: bytes) -> None:
        asked.append(handle)
        raise st.SessionError("the manager does not answer")

    with receiver, sender, monkeypatch.context() as patched:
        sender.send([NotToBeRead(), st.ones(10), st.ones(20)])
        content = receiver.recv_bytes()
        patched.setattr(_core, "cancel_handle", no_answer)
        with pytest.raises(ImportError, match="cannot be read"):
            loads_or_release(content)
        assert len(asked) == 1
    with pytest.raises(ImportError, match="cannot be read"):
        loads_or_release(content)


def test_invalid_pickle_raises(strategy) -> None:
    receiver, sender = mp.Pipe(duplex=False)
    with receiver, sender:
        for content in (b"", b"no pickle", pickle.dumps([1, 2])[:-3]):
            sender.send_bytes(content)
            with pytest.raises((pickle.UnpicklingError, EOFError)):
                receiver.recv()


def blocks() -> int:
    gc.collect()
    return int(st.stats()["blocks"])


def test_put_pickles_in_the_calling_thread(strategy) -> None:
    queue = mp.Queue()
    where = []

    class Noting:
        def __reduce__(self):
            where.append(threading.current_thread())
            return (int, ())

    queue.put(Noting())
    assert where == [threading.current_thread()]
    queue.get()


def test_put_raises_when_shared_memory_is_full(strategy) -> None:
    queue = mp.SimpleQueue()
    tensor = st.from_numpy(np.ones(1 << 20))
    before = st.stats()["blocks"]
    try:
        st.set_limit(1 << 20)
        with pytest.raises(st.OutOfSharedMemory, match="set_limit"):
            queue.put(tensor)
    finally:
        st.set_limit(None)
    assert st.stats()["blocks"] == before
    queue.put("next")
    assert queue.get() == "next"


def test_broken_pipe_cancels_the_message(strategy) -> None:
    receiver, sender = mp.Pipe(duplex=False)
    receiver.close()
    with pytest.raises(BrokenPipeError):
        sender.send(st.ones(10))
    assert st.stats()["in_flight"] == 0
    sender.close()


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "JoinableQueue"])
def test_unread_messages_are_freed_with_their_queue(strategy, kind) -> None:
    before = blocks()
    queue = getattr(mp, kind)()
    for _ in range(3):
        queue.put([st.ones(10), st.ones(20)])
    assert st.stats()["in_flight"] == 0
    assert blocks() > before + 6
    del queue
    wait_until(lambda: blocks() == before, what="the messages")
