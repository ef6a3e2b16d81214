"""Promise 5: a message outlives its sender."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

import shmtensor as st
from tests.helpers.children import end, run_beside, running, wait_until
from tests.helpers.queues import take


def put_and_exit(queue) -> None:
    queue.put([st.full(1000, 5.0), st.full(10, 6.0)[::2]])


def put_flush_and_die(queue) -> None:
    queue.put([st.full(1000, 5.0), st.full(10, 6.0)[::2]])
    if hasattr(queue, "join_thread"):
        queue.close()
        queue.join_thread()  # the feeder has written
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
@pytest.mark.parametrize("body", [put_and_exit, put_flush_and_die])
def test_consumer_receives_message_of_dead_sender(ctx, strategy, kind, body) -> None:
    queue = getattr(ctx, kind)()
    process = ctx.Process(target=body, args=(queue,))
    process.start()
    end(process)
    assert process.exitcode == (0 if body is put_and_exit else -signal.SIGKILL)
    wait_until(lambda: st.stats()["processes"] == 1, what="the death to be noticed")
    whole, part = take(queue)
    assert (whole.numpy() == 5).all()
    assert part.tolist() == [6] * 5


@pytest.mark.thorough
def test_message_is_readable_later_without_other_holders(strategy) -> None:
    """The parent never used a tensor: only the manager is left of the session, and it waits."""

    def run(arguments):
        return run_beside(__file__, "sender_death", *arguments, env={"SHMTENSOR_SHARING_STRATEGY": strategy})

    ways = list(product(["spawn", "forkserver", "fork"], ["exited", "killed"], ["parent", "sibling"]))
    with ThreadPoolExecutor(len(ways)) as pool:  # they wait most of the time
        for way, done in zip(ways, pool.map(run, ways), strict=True):
            assert done.stdout == "300000.0\n", (way, done)


def put_many(queue, count) -> None:
    for i in range(count):
        queue.put(st.full(100, i))


def test_hundred_messages_of_dead_sender_are_received(ctx, strategy) -> None:
    queue = ctx.Queue()
    with running(ctx, put_many, queue, 100):
        received = [take(queue) for _ in range(50)]
    time.sleep(0.3)
    received += [take(queue) for _ in range(50)]
    assert [tensor[0].item() for tensor in received] == list(range(100))


def test_memory_of_dead_sender_is_freed(ctx, strategy) -> None:
    """A block is freed when its message is read and the tensor released, the arena after the last one."""
    queue = ctx.Queue()
    process = ctx.Process(target=put_large, args=(queue,))
    before = st.stats()["bytes_reserved"]
    process.start()
    end(process)
    tensors = [take(queue) for _ in range(4)]
    held = st.stats()["bytes_reserved"]
    assert held - before >= 4 * LARGE
    del tensors[1:]
    wait_until(
        lambda: st.stats()["bytes_reserved"] <= before + LARGE + (2 << 20), what="three quarters to go back"
    )
    assert (tensors[0].numpy() == 1).all()
    tensors.clear()
    wait_until(lambda: st.stats()["bytes_reserved"] <= before, what="the last quarter to go back")


LARGE = 16 << 20


def put_large(queue) -> None:
    for _ in range(4):
        queue.put(st.full(LARGE, 1, "uint8"))
