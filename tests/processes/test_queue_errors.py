"""Promise 11: sending does not change the sender's objects, and errors are raised in the caller."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import queue as queues
import threading

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from shmtensor.multiprocessing._pickles import loads_or_release
from tests.helpers.children import end, wait_until


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
    queue.close()
    queue.join_thread()


def test_private_array_is_copied(strategy) -> None:
    """torch detaches the NumPy alias of a tensor that it sends; here the sender's memory stays in place."""
    array = np.arange(6.0)
    tensor = st.from_numpy(array)
    address = tensor.data_ptr()
    queue = mp.SimpleQueue()
    queue.put([tensor, tensor[::2]])
    array[:] = -1
    assert tensor.tolist() == [-1] * 6
    assert tensor.data_ptr() == address
    assert not tensor.is_shared()
    whole, some = queue.get()
    assert whole.tolist() == [0, 1, 2, 3, 4, 5]
    assert some.tolist() == [0, 2, 4]
    assert whole.is_shared()
    assert whole.storage() is some.storage(), "views in one message share one storage"
    queue.close()


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
    queue.close()


def test_closed_full_and_empty_queues_raise(strategy) -> None:
    queue = mp.Queue(1)
    queue.put(st.ones(1))
    with pytest.raises(queues.Full):
        queue.put(st.ones(1), block=False)
    with pytest.raises(queues.Full):
        queue.put(st.ones(1), timeout=0.05)
    assert queue.get().item() == 1
    with pytest.raises(queues.Empty):
        queue.get(timeout=0.05)
    assert st.stats()["in_flight"] == 0, "the message that did not fit is cancelled"
    queue.close()
    with pytest.raises(ValueError, match="closed"):
        queue.put(st.ones(1))
    queue.join_thread()
    assert st.stats()["in_flight"] == 0


def test_broken_pipe_cancels_the_message(strategy) -> None:
    receiver, sender = mp.Pipe(duplex=False)
    receiver.close()
    with pytest.raises(BrokenPipeError):
        sender.send(st.ones(10))
    assert st.stats()["in_flight"] == 0
    sender.close()


def never() -> None: ...


def test_failed_start_releases_the_arguments(strategy) -> None:
    context = mp.get_context("spawn")
    process = context.Process(target=never, args=(st.ones(10), Unpicklable()))
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        process.start()
    assert st.stats()["in_flight"] == 0


def test_unread_messages_are_counted_and_collected(strategy) -> None:
    reader, writer = multiprocessing.Pipe(duplex=False)
    for _ in range(3):
        writer.send(st.ones(10))
    reader.close()
    writer.close()
    assert st.stats()["in_flight"] == 3
    assert st.gc(older_than=3600) == 0
    assert st.gc() == 0
    assert st.gc(older_than=0) == 3
    assert st.stats()["in_flight"] == 0


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


def test_plain_pickle_copies(strategy) -> None:
    tensor = st.ones(4)
    copy = pickle.loads(pickle.dumps(tensor))
    copy.fill_(3)
    assert tensor.tolist() == [1, 1, 1, 1]
    assert not copy.is_shared()


def put_and_wait(queue, event) -> None:
    queue.put(st.ones(10))
    event.wait(30)


def test_message_is_not_lost_while_its_sender_waits(ctx, strategy) -> None:
    queue, event = ctx.Queue(), ctx.Event()
    process = ctx.Process(target=put_and_wait, args=(queue, event))
    process.start()
    assert queue.get(timeout=30).numpy().sum() == 10
    event.set()
    end(process)
    queue.close()
    queue.join_thread()
