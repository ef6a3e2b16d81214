"""Queues in event loops."""

from __future__ import annotations

import asyncio
import random
import threading
from functools import partial

import pytest

import shmtensor as st
from tests.helpers.threads import run_together

SECONDS = 60


def run(coroutine) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(coroutine, SECONDS)

    asyncio.run(bounded())


def echo(requests: st.Queue, answers: st.Queue) -> None:
    async def serve() -> None:
        while True:
            await answers.aput(await requests.aget())

    with pytest.raises(st.ShutDown):
        run(serve())


def test_tasks_of_two_processes_exchange_items(ctx) -> None:
    requests, answers = st.Queue(2), st.Queue(2)
    process = ctx.Process(target=echo, args=(requests, answers), daemon=True)
    process.start()

    async def ask() -> None:
        for number in range(50):
            await requests.aput([number, st.full(3, number)])

    async def read() -> None:
        for number in range(50):
            got, tensor = await answers.aget()
            assert (got, tensor.tolist()) == (number, [number] * 3)

    async def both() -> None:
        await asyncio.gather(ask(), read())

    run(both())
    requests.shutdown()
    process.join(SECONDS)
    assert process.exitcode == 0


def test_many_tasks_share_a_queue() -> None:
    q = st.Queue(3)
    got = []

    async def take(count: int) -> None:
        for _ in range(count):
            got.append(await q.aget())

    async def put(first: int) -> None:
        for number in range(first, first + 50):
            await q.aput(number)

    async def everything() -> None:
        await asyncio.gather(*(take(50) for _ in range(8)), *(put(50 * i) for i in range(8)))

    run(everything())
    assert sorted(got) == list(range(400))
    assert q.empty()


def test_cancelled_tasks_take_and_put_nothing() -> None:
    q = st.Queue(2)
    rng = random.Random(1)
    got, put = [], []

    async def take() -> None:
        got.append(await q.aget())

    async def add(number: int) -> None:
        await q.aput(number)
        put.append(number)

    async def everything() -> None:
        for number in range(300):
            tasks = [asyncio.ensure_future(add(number)), asyncio.ensure_future(take())]
            rng.shuffle(tasks)
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            rng.choice(tasks).cancel()
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        while not q.empty():
            await take()

    run(everything())
    assert len(put) > 50
    assert got == put


def test_task_that_was_woken_and_cancelled_passes_the_item_on() -> None:
    q = st.Queue()

    async def everything() -> None:
        first, second = (asyncio.ensure_future(q.aget()) for _ in range(2))
        while not (first._fut_waiter and second._fut_waiter):
            await asyncio.sleep(0)
        q.put("item")
        waiter = first._fut_waiter
        while not waiter.done():
            await asyncio.sleep(0)
        first.cancel()
        assert await second == "item"
        assert first.cancelled()

    run(everything())


def test_timeout_takes_nothing() -> None:
    q = st.Queue()

    async def everything() -> None:
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(q.aget(), 0.01)
        q.put(1)
        assert await q.aget() == 1

    run(everything())


def test_shutdown_wakes_tasks() -> None:
    q = st.Queue(1)

    async def everything() -> None:
        takers = [asyncio.ensure_future(q.aget()) for _ in range(3)]
        while not all(taker._fut_waiter for taker in takers):
            await asyncio.sleep(0)
        threading.Timer(0.01, q.shutdown).start()
        for result in await asyncio.gather(*takers, return_exceptions=True):
            assert isinstance(result, st.ShutDown)

    run(everything())


def test_loops_of_several_threads_share_a_queue() -> None:
    q = st.Queue(2)
    got: list[int] = []

    async def take() -> None:
        for _ in range(50):
            got.append(await q.aget())

    async def put() -> None:
        for number in range(50):
            await q.aput(number)

    run_together(*(partial(run, work()) for work in (take, put, take, put)))
    assert sorted(got) == sorted([*range(50)] * 2)


@pytest.mark.parametrize("direction", ["aget", "aput"])
def test_task_that_never_waits_lets_others_run(direction) -> None:
    """Regression: no timer fired and no cancellation arrived while the queue had items, or room."""
    q = st.Queue()
    q.put_many(range(200_000))

    async def work() -> None:
        for _ in range(200_000):
            await (q.aget() if direction == "aget" else q.aput(0))

    async def everything() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(work(), 0.02)

    run(everything())
    assert not q.empty()
