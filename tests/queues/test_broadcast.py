"""The methods of a broadcast and its readers, in one process."""

from __future__ import annotations

import gc
import queue
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import shmtensor as st
from tests.helpers.generators import generated
from tests.helpers.live_resources import assert_no_leaks, live_resources
from tests.helpers.numbered_messages import message, number_in

SECONDS = 60


def test_tensor_is_held_once_and_is_the_same_memory() -> None:
    b = st.Broadcast(4)
    readers = [b.reader() for _ in range(5)]
    before = live_resources()
    b.put(st.zeros(1000))
    with_tensor = live_resources()
    assert with_tensor[0] == before[0] + 1
    received = [reader.get() for reader in readers]
    assert live_resources()[:2] == with_tensor[:2]
    received[0][:] = 7
    assert all(tensor.tolist() == [7] * 1000 for tensor in received)
    assert len({id(tensor.storage()) for tensor in received}) == 1
    del received
    assert live_resources() == before


@pytest.mark.parametrize(
    "item",
    [None, 5, "text", "t" * 5000, b"b" * 5000, (1, "a", None), {"key": [1, 2]}, 1 << 100],
    ids=lambda item: type(item).__name__,
)
def test_items_arrive_as_they_were(item: object) -> None:
    with assert_no_leaks():
        b = st.Broadcast(2)
        readers = b.reader(), b.reader()
        b.put(item)
        assert [reader.get() for reader in readers] == [item, item]
        del b, readers


def test_read_only_tensor_stays_read_only() -> None:
    b = st.Broadcast(2)
    reader = b.reader()
    tensor = st.ones(3)
    b.put(tensor.as_readonly())
    received = reader.get()
    tensor[:] = 2
    assert received.tolist() == [2] * 3
    with pytest.raises((TypeError, ValueError)):
        received[:] = 3


def test_full_broadcast_waits_for_the_slowest_reader() -> None:
    b = st.Broadcast(2)
    fast, slow = b.reader(), b.reader()
    b.put(0)
    b.put(1)
    assert [fast.get(), fast.get()] == [0, 1]
    with pytest.raises(queue.Full):
        b.put_nowait(2)
    with pytest.raises(queue.Full):
        b.put(2, timeout=0.01)
    putter = threading.Thread(target=b.put, args=(2,))
    putter.start()
    assert slow.get() == 0
    putter.join(SECONDS)
    assert not putter.is_alive()
    putter = threading.Thread(target=b.put, args=(3,))
    putter.start()
    slow.close()
    putter.join(SECONDS)
    assert not putter.is_alive()
    assert [fast.get(), fast.get()] == [2, 3]


def test_put_raises_at_once() -> None:
    b = st.Broadcast(1, on_full="raise")
    reader = b.reader()
    b.put(0)
    with pytest.raises(queue.Full):
        b.put(1)
    assert reader.get() == 0
    b.put(1)
    assert reader.get() == 1


def test_iteration_ends_with_the_shutdown() -> None:
    b = st.Broadcast(4)
    with b.reader() as reader:
        b.put(1)
        b.put(2)
        b.shutdown()
        assert b.is_shutdown
        assert list(reader) == [1, 2]
        with pytest.raises(st.ShutDown, match="the broadcast was shut down"):
            reader.get()
    with pytest.raises(st.ShutDown, match="the broadcast was shut down"):
        b.put(3)
    assert list(b.reader()) == []


def test_shutdown_wakes_all_that_wait() -> None:
    b = st.Broadcast(1)
    reader = b.reader()
    full = st.Broadcast(1)
    other = full.reader()
    full.put(0)
    ended = []

    def wait(call, *args) -> None:
        with pytest.raises(st.ShutDown):
            call(*args)
        ended.append(call)

    threads = [threading.Thread(target=wait, args=args) for args in [(reader.get,), (full.put, 1)]]
    for thread in threads:
        thread.start()
    b.shutdown()
    full.shutdown()
    for thread in threads:
        thread.join(SECONDS)
    assert len(ended) == 2
    assert other.get() == 0


@pytest.mark.parametrize("call", [lambda b: b.put(2), lambda b: b.wait_for_readers(9)], ids=["put", "join"])
def test_close_ends_the_calls_of_other_threads(call) -> None:
    b = st.Broadcast(1)
    reader = b.reader()
    b.put(1)
    ended = queue.SimpleQueue()

    def run() -> None:
        with pytest.raises(ValueError, match="broadcast is closed"):
            call(b)
        ended.put(True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(0.05)
    b.close()
    assert ended.get(timeout=SECONDS)
    thread.join()
    assert reader.get() == 1


def test_closed_objects_refuse_use() -> None:
    b = st.Broadcast(2)
    reader = b.reader()
    b.put(1)
    b.close()
    b.close()
    assert b.closed
    for call in (lambda: b.put(1), b.reader, b.lag, b.shutdown, lambda: b.wait_for_readers(1)):
        with pytest.raises(ValueError, match="broadcast is closed"):
            call()
    assert reader.get() == 1
    reader.close()
    reader.close()
    assert reader.closed
    for call in (reader.get, reader.get_nowait, reader.lag):
        with pytest.raises(ValueError, match="reader is closed"):
            call()
    assert "closed" in repr(b)
    assert "closed" in repr(reader)


def test_deleted_reader_leaves() -> None:
    b = st.Broadcast(2)
    reader = b.reader()
    watched = weakref.ref(reader)
    assert b.readers == 1
    del reader
    gc.collect()
    assert watched() is None
    assert b.readers == 0


def test_reader_keeps_its_broadcast() -> None:
    with assert_no_leaks():
        reader = st.Broadcast(2).reader()
        gc.collect()
        assert reader.lag() == 0
        del reader


def test_readers_are_awaited() -> None:
    b = st.Broadcast(2)
    with pytest.raises(TimeoutError, match="0 of 2 readers"):
        b.wait_for_readers(2, timeout=0.01)
    kept = []
    threads = [threading.Thread(target=lambda: kept.append(b.reader())) for _ in range(2)]
    for thread in threads:
        thread.start()
    b.wait_for_readers(2, timeout=SECONDS)
    assert b.readers == 2
    for thread in threads:
        thread.join()
    for count in (0, -1, 257):
        with pytest.raises(ValueError, match="between 1 and 256"):
            b.wait_for_readers(count)
    b.shutdown()
    with pytest.raises(st.ShutDown):
        b.wait_for_readers(3)


@pytest.mark.parametrize("maxsize", [0, -1, 65537])
def test_maxsize_is_bounded(maxsize: int) -> None:
    with pytest.raises(ValueError, match="maxsize must be from 1 to 65536"):
        st.Broadcast(maxsize)


def test_arguments_are_checked() -> None:
    with pytest.raises(
        ValueError, match="on_full must be one of 'block', 'drop_oldest', 'raise', not 'wait'"
    ):
        st.Broadcast(1, on_full="wait")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        st.Broadcast()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="method reader"):
        st.BroadcastReader(1)  # type: ignore[arg-type]
    b = st.Broadcast(np.int64(3), "raise")
    assert (b.maxsize, b.on_full) == (3, "raise")
    assert repr(b) == "<Broadcast: 0 readers, lag 0, maxsize 3, on_full 'raise'>"
    assert repr(b.reader()) == "<BroadcastReader: missed 0>"


def test_largest_broadcast_works() -> None:
    with assert_no_leaks():
        b = st.Broadcast(65536)
        reader = b.reader()
        for number in range(70_000):
            b.put(number)
            if number >= 65535:
                assert reader.get() == number - 65535
        assert reader.lag() == 65535
        del b, reader


ACTIONS = some.lists(
    some.one_of(
        some.tuples(some.just("put"), some.integers(0, 3)),
        some.tuples(some.just("get"), some.integers(0, 3)),
        some.tuples(some.just("join"), some.just(0)),
        some.tuples(some.just("leave"), some.integers(0, 3)),
    ),
    max_size=60,
)


@generated(60)
@given(
    maxsize=some.integers(1, 4), on_full=some.sampled_from(["block", "drop_oldest", "raise"]), actions=ACTIONS
)
def test_any_program_agrees_with_a_model(maxsize: int, on_full, actions) -> None:
    with assert_no_leaks():
        b = st.Broadcast(maxsize, on_full)
        readers: list[tuple[st.BroadcastReader, list[int]]] = []
        number = 0
        for action, which in actions:
            if action == "put":
                full = any(len(unread) == maxsize for _, unread in readers)
                if full and on_full != "drop_oldest":
                    with pytest.raises(queue.Full):
                        b.put_nowait(message(number))
                    continue
                b.put_nowait(message(number))
                for _, unread in readers:
                    unread.append(number)
                    del unread[:-maxsize]
                    del _
                number += 1
            elif action == "join" and len(readers) < 4:
                readers.append((b.reader(), []))
            elif action == "get" and which < len(readers):
                reader, unread = readers[which]
                if unread:
                    assert number_in(reader.get_nowait()) == unread.pop(0)
                else:
                    with pytest.raises(queue.Empty):
                        reader.get_nowait()
                del reader
            elif action == "leave" and which < len(readers):
                readers.pop(which)[0].close()
            assert [reader.lag() for reader, _ in readers] == [len(unread) for _, unread in readers]
            assert b.lag() == max((len(unread) for _, unread in readers), default=0)
        del b, readers


def test_slow_consumer_gets_the_newest_and_others_all() -> None:
    with assert_no_leaks():
        b = st.Broadcast(4)
        slow, fast = b.reader(newest=True), b.reader()
        for number in range(20):
            b.put(message(number), timeout=SECONDS)
            assert number_in(fast.get()) == number
        assert (slow.lag(), fast.lag(), b.lag()) == (1, 0, 0)
        assert (number_in(slow.get()), slow.missed, fast.missed) == (19, 19, 0)
        with pytest.raises(queue.Empty):
            slow.get_nowait()
        b.put("next")
        assert slow.get() == "next"
        del b, slow, fast


@pytest.mark.parametrize("maxsize", [1, 5])
def test_memory_of_what_a_slow_consumer_skips_is_free(maxsize: int) -> None:
    b = st.Broadcast(maxsize)
    slow = b.reader(newest=True)
    b.put(st.zeros(1000))
    one = live_resources()
    for number in range(50):
        b.put(st.full(1000, number), timeout=SECONDS)
        assert live_resources() == one
    assert slow.get()[0].item() == 49
    b.put(st.full(1000, 50))
    assert live_resources() == one
    slow.close()
    assert live_resources()[0] < one[0]
    b.put("nobody reads it")
    assert b.readers == 0
