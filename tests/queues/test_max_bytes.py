"""Queues and broadcasts that are full by the bytes of their messages."""

from __future__ import annotations

import asyncio
import json
import queue
import threading

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import output, run_python
from tests.helpers.live_resources import assert_no_leaks

SECONDS = 60
LARGE = np.ones(25_000)  # 200,000 bytes

# A generator of 200 arrays of 1 MB, and a slow consumer; 20 MB of shared memory are permitted.
PROGRAM = """
import sys, time
import numpy as np, shmtensor as st, shmtensor.multiprocessing as mp

def consume(arrays, sums):
    for array in arrays:
        time.sleep(0.001)
        sums.put(float(array.sum()))

if __name__ == "__main__":
    arrays, sums = st.Queue(max_bytes=eval(sys.argv[1])), st.Queue()
    consumer = mp.get_context("fork").Process(target=consume, args=(arrays, sums), daemon=True)
    consumer.start()
    for number in range(200):
        arrays.put(np.full(131_072, float(number)))
    arrays.shutdown()
    print(sum(sums.get(timeout=60) for _ in range(200)))
"""


def test_generator_runs_in_limited_memory() -> None:
    memory = {"SHMTENSOR_MAX_BYTES": "20000000"}
    result = run_python(PROGRAM, env=memory, arguments=("8_000_000",))
    assert float(output(result)) == 131_072 * sum(range(200))
    assert "OutOfSharedMemory" in run_python(PROGRAM, env=memory, arguments=("None",)).stderr


def fill(q: st.Queue) -> int:
    with pytest.raises(queue.Full):
        q.put_many([LARGE] * 100, block=False)
    return q.qsize()


def test_message_is_put_while_there_are_fewer_bytes() -> None:
    with assert_no_leaks():
        q: st.Queue = st.Queue(max_bytes=500_000)
        assert (q.max_bytes, st.Queue().max_bytes) == (500_000, None)
        assert repr(q) == "<Queue: 0 messages, maxsize 0, max_bytes 500000>"
        assert fill(q) == 3
        assert q.full()
        assert 600_000 <= q.qbytes() < 610_000
        with pytest.raises(queue.Full):
            q.put_many([1, 2], block=False)
        q.get()
        assert not q.full()
        q.put(st.empty(10_000_000))  # a larger one is not refused
        assert q.full()
        assert q.qbytes() > 80_000_000
        for _ in range(3):
            q.get()
        assert (q.qbytes(), q.full()) == (0, False)
        del q


def test_what_is_counted(strategy: str) -> None:
    q: st.Queue = st.Queue()
    sizes = []
    tensor = st.empty(1000)
    for item in (b"ten bytes.", tensor, tensor[:10], [tensor, 1], {"of a pickle": tensor}, LARGE):
        before = q.qbytes()
        q.put(item)
        sizes.append(q.qbytes() - before)
    small, whole, view, listed, pickled, array = sizes
    assert small == 10
    assert 8000 < whole < 8100
    assert 8000 < view < 8100  # its block
    assert 8000 < listed < 8400
    assert 8000 < pickled < 8600
    assert 200_000 < array < 200_600
    for _ in sizes:
        q.get()
    assert q.qbytes() == 0


@pytest.mark.parametrize(("bad", "limits"), [(0, "at least 1"), (-1, "at least 1"), (2**63, "from 1 to")])
def test_limit_must_be_positive(bad: int, limits: str) -> None:
    for make in (st.Queue, lambda **keywords: st.Broadcast(3, **keywords)):
        with pytest.raises(ValueError, match=f"^max_bytes must be {limits}"):
            make(max_bytes=bad)
        with pytest.raises(TypeError, match=r"^max_bytes must be an integer"):
            make(max_bytes=1.5)


def test_count_of_messages_limits_too() -> None:
    q: st.Queue = st.Queue(2, max_bytes=10_000)
    q.put(1)
    q.put(2)
    with pytest.raises(queue.Full):
        q.put(3, timeout=0.001)


def test_one_large_message_makes_room_for_many_producers() -> None:
    q: st.Queue = st.Queue(max_bytes=1000)
    q.put(LARGE)
    threads = [threading.Thread(target=q.put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    assert q.get().nbytes == LARGE.nbytes
    for thread in threads:  # although no more is taken
        thread.join(SECONDS)
    assert sorted(q.get_many()) == list(range(4))


def test_tasks_wait_for_room() -> None:
    q: st.Queue = st.Queue(max_bytes=500_000)

    async def put_all() -> None:
        for _ in range(20):
            await q.aput(LARGE)

    async def get_all() -> int:
        most = 0
        for _ in range(20):
            most = max(most, q.qbytes())
            await q.aget()
        return most

    async def both() -> int:
        return (await asyncio.wait_for(asyncio.gather(put_all(), get_all()), SECONDS))[1]

    assert asyncio.run(both()) < 610_000


def test_queue_that_redelivers() -> None:
    q: st.Queue = st.Queue(max_bytes=500_000, redeliver=True)
    assert fill(q) == 3
    for left in (2, 1, 0):
        q.get()
        assert q.qbytes() // 200_000 == left
    q.task_done()
    assert not q.full()


@pytest.mark.parametrize("policy", ["block", "raise"])
def test_broadcast_waits_for_the_slowest_reader(policy: str) -> None:
    with assert_no_leaks():
        b: st.Broadcast = st.Broadcast(100, policy, max_bytes=500_000)
        quick, slow = b.reader(), b.reader()
        for _ in range(3):
            b.put(LARGE)
            quick.get()
        with pytest.raises(queue.Full):
            b.put(LARGE, timeout=0.001)
        assert b.lag_bytes() // 200_000 == b.lag() == 3
        slow.get()
        b.put(LARGE)
        slow.close()
        quick.get()
        assert (b.lag(), b.lag_bytes()) == (0, 0)
        del b, quick, slow


def test_broadcast_drops_the_oldest_messages() -> None:
    with assert_no_leaks():
        b: st.Broadcast = st.Broadcast(100, "drop_oldest", max_bytes=500_000)
        quick, slow = b.reader(), b.reader()
        for number in range(10):
            b.put(np.full(25_000, number))
            assert quick.get()[0] == number
        assert (b.lag(), slow.lag(), slow.missed, quick.missed) == (3, 3, 0, 0)
        assert slow.get()[0] == 7
        assert (slow.missed, b.lag()) == (7, 2)
        b.put(st.empty(1_000_000))  # the two that are left have fewer bytes
        assert b.lag() == 3
        b.put("small")  # drops all others
        assert (b.lag(), slow.get(), quick.get()) == (1, "small", "small")
        assert (slow.missed, b.lag_bytes()) == (10, 0)
        del b, quick, slow


def test_waiting_writer_is_woken() -> None:
    b: st.Broadcast = st.Broadcast(100, max_bytes=500_000)
    reader = b.reader()
    for _ in range(3):
        b.put(LARGE)
    writer = threading.Thread(target=b.put, args=(LARGE,))
    writer.start()
    reader.get()
    writer.join(SECONDS)
    assert b.lag() == 3


def test_simple_queue_counts_what_it_copies() -> None:
    with assert_no_leaks():
        q = mp.SimpleQueue()
        assert q.max_bytes == 64 * 2**20
        tensor = st.empty(1_000_000)
        for item in [tensor, [tensor, 1], {"tensor": tensor}] * 20:  # 60 messages with 4 MB each
            q.put(item)
        assert q.qbytes() < 100_000
        q.put(LARGE)
        assert 200_000 <= q.qbytes() < 300_000
        for _ in range(61):
            q.get()
        assert q.qbytes() == 0
        small = mp.get_context("spawn").SimpleQueue(max_bytes=300_000)
        small.put(LARGE)
        small.put([tensor, LARGE])
        assert small.full()
        del q, small, tensor, item


def test_limit_of_simple_queue_follows_that_of_memory() -> None:
    code = "import shmtensor.multiprocessing as mp; print(mp.SimpleQueue().max_bytes)"
    assert output(run_python(code, env={"SHMTENSOR_MAX_BYTES": "32000000"})) == "2000000\n"


def shown(*arguments: str) -> str:
    code = "import sys; from shmtensor.cli import main; sys.exit(main(['ls', *sys.argv[1:]]))"
    return output(run_python(code, arguments=(*arguments, st.stats()["session"])))


def test_bytes_are_listed() -> None:
    q: st.Queue = st.Queue(max_bytes=500_000)
    b: st.Broadcast = st.Broadcast(3, "drop_oldest")
    reader = b.reader()
    for _ in range(5):
        b.put(LARGE)
    q.put(LARGE)
    (seen,) = json.loads(shown("--json"))
    of_queue, of_broadcast = sorted(seen["queues"], key=lambda one: one["readers"] is not None)
    assert (of_queue["bytes"], of_queue["max_bytes"]) == (q.qbytes(), 500_000)
    assert (of_broadcast["bytes"], of_broadcast["max_bytes"]) == (b.lag_bytes(), 0)
    assert of_broadcast["bytes"] // 200_000 == reader.lag() == 3
    assert "max bytes" in shown()
