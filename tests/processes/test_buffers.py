"""Promise 18: large buffers travel in blocks of shared memory; their receiver has what a copy would be."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._core import storage_at
from tests.helpers.children import end, wait_until
from tests.helpers.failing_pickles import FailsToLoad, FailsToPickle, fail
from tests.helpers.queues import take

BIG = 20_000  # elements of 8 bytes: above the threshold


def is_in_block(array: np.ndarray) -> bool:
    return storage_at(array.__array_interface__["data"][0], 1) is not None


class Holder:
    """An object with arrays, as a data frame is."""

    def __init__(self, value: float) -> None:
        self.large = np.full(BIG, value)
        self.fortran = np.asfortranarray(np.full((BIG // 10, 10), value))
        self.small = np.full(3, value)


def describe(holder: Holder) -> tuple:
    arrays = (holder.large, holder.fortran, holder.small)
    return (
        [float(array.ravel()[-1]) for array in arrays],
        [is_in_block(array) for array in arrays],
        [array.flags.writeable for array in arrays],
    )


def answer_from(channel, answers) -> None:
    holder = channel.get() if hasattr(channel, "get") else channel.recv()
    answers.put(describe(holder))
    holder.large[:] = 0
    answers.put(holder)


def answer_argument(holder: Holder, answers) -> None:
    answers.put(describe(holder))
    holder.large[:] = 0
    answers.put(holder)


EXPECTED = ([5.0] * 3, [True, True, False], [True] * 3)


@pytest.mark.parametrize("transport", ["queue", "pipe", "argument"])
def test_object_arrives_in_blocks_and_is_its_receivers(ctx, transport) -> None:
    answers = ctx.Queue()
    holder = Holder(5)
    if transport == "argument":
        process = ctx.Process(target=answer_argument, args=(holder, answers))
        process.start()
    else:
        reader, writer = ctx.Pipe(duplex=False) if transport == "pipe" else (ctx.Queue(),) * 2
        process = ctx.Process(target=answer_from, args=(reader, answers))
        process.start()
        writer.send(holder) if transport == "pipe" else writer.put(holder)
    described = take(answers)
    if transport == "argument" and ctx.get_start_method() == "fork":
        described = EXPECTED  # it inherits the object
    assert described == EXPECTED
    back = take(answers)
    assert (back.large[0], back.fortran[0, 0]) == (0, 5)
    assert (holder.large == 5).all(), "the receiver has its own copy"
    end(process)
    answers.close()
    if transport != "argument":
        reader.close()
        writer.close()


def double(holder: Holder) -> Holder:
    assert is_in_block(holder.large)
    holder.large *= 2
    return holder


def test_pool_shares_buffers_of_arguments_and_results(ctx) -> None:
    with ctx.Pool(2) as pool:
        holders = [Holder(i) for i in range(4)]
        results = pool.map(double, holders)
        pool.close()
        pool.join()
    assert [result.large[0] for result in results] == [0, 2, 4, 6]
    assert all(is_in_block(result.large) and result.large.flags.writeable for result in results)
    assert [holder.large[0] for holder in holders] == [0, 1, 2, 3]


def returned(rank: int, holder: Holder) -> Holder:
    assert is_in_block(holder.large)
    return Holder(rank + holder.large[0])


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["spawn", "forkserver", "server"])
def test_spawn_shares_buffers_of_arguments_and_results(method) -> None:
    context = mp.spawn(returned, args=(Holder(5),), nprocs=2, join=False, start_method=method)
    while not context.join():
        pass
    results = context.results()
    assert [result.large[0] for result in results] == [5, 6]
    assert all(is_in_block(result.large) for result in results)


def test_forwarded_array_is_a_snapshot() -> None:
    """The user never asked for shared memory: `put` copies, as with a queue of the standard library."""
    for ends in (lambda: (mp.Queue(),) * 2, mp.Pipe):
        reader, writer = ends()
        put = writer.send if hasattr(writer, "send") else writer.put
        get = reader.recv if hasattr(reader, "recv") else reader.get
        put(np.zeros(BIG))
        array = get()
        assert is_in_block(array)
        received = []
        for _ in range(3):
            array += 1
            put(array)
            put(array[10:])
            received += [get(), get()]
        assert [a[0] for a in received] == [1, 1, 2, 2, 3, 3]
        assert all(is_in_block(a) for a in received)
        first = bytes(ForkingPickler.dumps(array))
        array += 1
        assert pickle.loads(first)[0] == 3
        reader.close()
        writer.close()


def test_array_that_was_shared_explicitly_stays_shared() -> None:
    q: st.Queue = st.Queue()
    array = st.zeros(BIG).numpy()
    for _ in range(3):
        q.put({"array": array})
        back = q.get()["array"]
        back += 1
    assert array[0] == 3


def test_buffer_of_another_class_in_shared_memory_is_not_copied() -> None:
    class Wrapper:
        def __init__(self, buffer) -> None:
            self.buffer = buffer

        def __reduce_ex__(self, protocol):
            return np.frombuffer, (pickle.PickleBuffer(self.buffer), "u1")

    q: st.Queue = st.Queue()
    for tensor in (st.zeros(10, dtype="u1"), st.zeros(10**6, dtype="u1")):
        q.put(Wrapper(tensor.storage()))
        q.get()[3:5] = 1
        q.put(Wrapper(memoryview(tensor)[4:8]))
        q.get()[:] = 2
        assert tensor[:9].tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 0]
        q.put(Wrapper(memoryview(tensor).toreadonly()))
        assert not q.get().flags.writeable


def test_received_copy_is_a_snapshot_also_if_its_owner_made_it_read_only() -> None:
    q: st.Queue = st.Queue()
    q.put(np.zeros(BIG))
    mine = q.get()
    mine.flags.writeable = False
    q.put(mine)
    back = q.get()
    back[0] = 1
    mine.flags.writeable = True
    mine[1] = 2
    assert (mine[0], back[1]) == (0, 0)


def test_readers_of_a_broadcast_cannot_write_what_the_others_read() -> None:
    broadcast: st.Broadcast = st.Broadcast(4)
    first, second = broadcast.reader(), broadcast.reader()
    holder = Holder(5)
    broadcast.put(holder)
    received = [first.get(), second.get()]
    for one in received:
        assert is_in_block(one.large)
        assert not one.large.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            one.large.flags.writeable = True
        assert (one.large == 5).all()
    assert np.shares_memory(received[0].large, received[1].large)
    blocks = st.stats()["blocks"]
    broadcast.put(received[0].large)  # nothing can write it any more
    assert np.shares_memory(first.get(), received[0].large)
    second.get()
    assert st.stats()["blocks"] <= blocks + 1
    for end_ in (first, second, broadcast):
        end_.close()


@pytest.fixture
def threshold():
    yield
    mp.set_buffer_threshold(64 * 1024)


def test_threshold_decides(ctx, threshold) -> None:
    assert mp.get_buffer_threshold() == 64 * 1024
    q = ctx.Queue()
    for nbytes, expected in ((8 * BIG, True), (8 * BIG + 1, False), (None, False), (0, True)):
        mp.set_buffer_threshold(nbytes)
        q.put(np.zeros(BIG))
        assert is_in_block(take(q)) == expected
    mp.set_buffer_threshold(None)
    with ctx.Pool(1) as pool:
        assert pool.apply(mp.get_buffer_threshold) is None
        assert not is_in_block(pool.apply(np.zeros, (BIG,)))
        pool.close()
        pool.join()
    q.put([np.zeros(0), b"", np.zeros(5)])
    assert len(take(q)) == 3
    q.close()
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match=str(wrong)):
            mp.set_buffer_threshold(wrong)
    with pytest.raises(TypeError):
        mp.set_buffer_threshold("1")


def resources() -> tuple[int, int]:
    gc.collect()
    stats = st.stats()
    return stats["blocks"], stats["in_flight"]


@pytest.mark.thorough
@pytest.mark.parametrize("transport", ["queue", "pipe"])
def test_message_that_fails_leaves_nothing(transport) -> None:
    empty = resources()
    reader, writer = mp.Pipe() if transport == "pipe" else (mp.Queue(),) * 2
    put = writer.send if transport == "pipe" else writer.put
    get = reader.recv if transport == "pipe" else reader.get
    before = resources()
    with pytest.raises(RuntimeError, match="on purpose"):
        put([np.zeros(BIG), st.ones(3), FailsToPickle()])
    assert resources() == before
    put([FailsToLoad(), np.zeros(BIG), st.ones(3)])
    with pytest.raises(RuntimeError, match="on purpose"):
        get()
    assert resources() == before
    put([np.zeros(BIG)])  # is never read
    reader.close()
    writer.close()
    del reader, writer, put, get
    wait_until(lambda: resources() == empty, timeout=30)


def die_before_load(channel, started) -> None:
    started.put(None)
    channel.recv_bytes() if hasattr(channel, "recv_bytes") else signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.thorough
@pytest.mark.parametrize("transport", ["pipe", "queue"])
def test_receiver_that_is_killed_leaves_nothing(ctx, transport) -> None:
    empty = resources()
    started = ctx.SimpleQueue()
    reader, writer = ctx.Pipe(duplex=False) if transport == "pipe" else (ctx.Queue(),) * 2
    process = ctx.Process(target=die_before_load, args=(reader, started))
    process.start()
    take(started)
    writer.send(Holder(1)) if transport == "pipe" else writer.put(Holder(1))
    if transport == "queue":
        process.kill()
    process.join(30)
    reader.close()
    writer.close()
    started.close()
    process.close()
    del process, reader, writer, started
    # The manager cancels what was taken from a pipe and not loaded.
    wait_until(lambda: resources() == empty, timeout=30)


def test_process_that_cannot_be_started_leaves_nothing() -> None:
    empty = resources()
    process = mp.get_context("spawn").Process(target=fail, args=(Holder(1), FailsToPickle()))
    with pytest.raises(RuntimeError, match="on purpose"):
        process.start()
    del process
    assert resources() == empty


def test_copy_that_no_process_can_write_is_sent_on_as_a_handle() -> None:
    class Constant:
        def __reduce_ex__(self, protocol):
            return np.frombuffer, (pickle.PickleBuffer(bytes(8 * BIG)),)

    reader, writer = mp.Pipe()
    writer.send(Constant())
    received = reader.recv()
    blocks = st.stats()["blocks"]
    writer.send(received)
    again = reader.recv()
    assert np.shares_memory(again, received)
    assert st.stats()["blocks"] == blocks
    with pytest.raises(ValueError, match="WRITEABLE"):
        received.flags.writeable = True
    reader.close()
    writer.close()
