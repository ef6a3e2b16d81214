"""Tasks of an event loop that wait for primitives."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from unittest.mock import Mock

import pytest

import shmtensor as st
from shmtensor._tasks import wait_in_thread
from tests.locks.holders import holder, kill, until


def acquire(lock: Any) -> None:
    lock.acquire()


def no_thread_waits() -> bool:
    return all(thread.name != "shmtensor-wait" for thread in threading.enumerate())


@pytest.mark.parametrize("kind", [st.Lock, st.Semaphore])
def test_loop_runs_while_a_task_waits(kind: Any) -> None:
    async def main() -> list[str]:
        primitive, seen = kind(), []

        async def work(name: str) -> None:
            async with primitive:
                seen.append(name)
                await asyncio.sleep(0.01)
                seen.append(name)

        await asyncio.gather(work("a"), work("b"), work("c"))
        assert primitive.acquire(block=False)
        return seen

    seen = asyncio.run(main())
    assert seen[::2] == seen[1::2]
    until(no_thread_waits)


@pytest.mark.parametrize("kind", [st.Lock, st.Semaphore])
def test_cancelled_task_does_not_have_it(kind: Any) -> None:
    async def main() -> None:
        primitive = kind()
        primitive.acquire()
        for seconds in (0.0, 0.001, 0.02):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(primitive.aacquire(), seconds)
        task = asyncio.create_task(primitive.aacquire())
        await asyncio.sleep(0.01)
        primitive.release()
        task.cancel()  # it may have it
        try:
            await task
        except asyncio.CancelledError:
            pass
        else:
            primitive.release()
        await asyncio.wait_for(primitive.aacquire(), 60)
        primitive.release()

    asyncio.run(main())
    until(no_thread_waits)


@pytest.mark.parametrize("kind", [st.Lock, st.Semaphore])
def test_cancelled_task_does_not_have_it_in_a_loop_that_stops(kind: Any) -> None:
    primitive, loop = kind(), asyncio.new_event_loop()
    primitive.acquire()
    with pytest.raises(asyncio.TimeoutError):
        loop.run_until_complete(asyncio.wait_for(primitive.aacquire(), 0.01))
    primitive.release()
    until(no_thread_waits)
    assert primitive.acquire(block=False)
    loop.close()


async def kill_owner_for_which_a_task_waits(lock: st.Lock) -> tuple[asyncio.Task[bool], int]:
    """Return the task, and the pid of the owner."""
    with holder(lock, acquire) as process:
        task = asyncio.create_task(lock.aacquire())
        await asyncio.sleep(0.01)
        return task, kill(process)


def test_cancelled_task_leaves_a_death_to_the_next_owner() -> None:
    async def main() -> None:
        lock = st.Lock()
        task, pid = await kill_owner_for_which_a_task_waits(lock)
        until(no_thread_waits)  # it has the lock; the task does not know
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(st.OwnerDied) as raised:
            lock.acquire(block=False)
        assert raised.value.pid == pid

    asyncio.run(main())


def test_task_that_waited_may_notify() -> None:
    async def main() -> None:
        lock = st.Lock()
        condition = st.Condition(lock)
        lock.acquire()
        task = asyncio.create_task(lock.aacquire())
        await asyncio.sleep(0.01)
        lock.release()
        await asyncio.wait_for(task, 60)
        condition.notify_all()
        lock.release()

    asyncio.run(main())


def test_task_is_told_of_a_death() -> None:
    async def main() -> None:
        lock = st.Lock()
        task, pid = await kill_owner_for_which_a_task_waits(lock)
        with pytest.raises(st.OwnerDied) as raised:
            await asyncio.wait_for(task, 60)
        assert raised.value.pid == pid
        assert lock.locked()
        lock.release()
        with holder(lock, acquire) as process:
            kill(process)
            with pytest.raises(st.OwnerDied):
                async with lock:
                    pytest.fail("the block ran")
        assert not lock.locked()

    asyncio.run(main())


@pytest.mark.parametrize(("error", "undone"), [(None, 1), (st.StaleHandleError("x"), 0)])
def test_cancelled_task_undoes_only_what_it_has(error: Exception | None, undone: int) -> None:
    cancelled, undo = threading.Event(), Mock()

    def attempt(_: float) -> bool:
        assert cancelled.wait(60)
        if error is not None:
            raise error
        return True

    async def main() -> None:
        task = asyncio.create_task(wait_in_thread(attempt, undo))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()
        while not no_thread_waits():
            await asyncio.sleep(0.001)

    asyncio.run(main())
    assert undo.call_count == undone


def test_event_wakes_many_tasks() -> None:
    async def main() -> list[bool]:
        event = st.Event()
        tasks = [asyncio.create_task(event.await_()) for _ in range(20)]
        await asyncio.sleep(0.01)
        event.set()
        return await asyncio.wait_for(asyncio.gather(*tasks, event.await_()), 60)

    assert asyncio.run(main()) == [True] * 21
