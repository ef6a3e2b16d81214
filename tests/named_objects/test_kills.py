"""Builders and managers killed at random instants, while others wait."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, run_python
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.queues import take


def build() -> dict:
    parts = {"pid": os.getpid(), "items": st.SharedList(np.full(50, i) for i in range(20))}
    return parts | {f"tensor {i}": st.full(100, i) for i in range(10)}


def check(found: dict) -> None:
    assert [int(array[0]) for array in found["items"]] == list(range(20))
    assert [found[f"tensor {i}"][0].item() for i in range(10)] == list(range(10))


def build_repeatedly(name: str) -> None:
    """Publish and remove indefinitely, so that each kill interrupts one of both."""
    while True:
        st.once(name, build)
        st.unpublish(name)


def wait_for(name: str, queue) -> None:
    check(st.once(name, build, timeout=60))
    queue.put(os.getpid())


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_builder_killed_at_random_instant_harms_no_waiter(seed) -> None:
    chance = random.Random(seed)
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    st.ones(1)
    with assert_no_leaks():
        for round_ in range(12):
            name = f"random {seed} {round_ % 3}"
            victim = context.Process(target=build_repeatedly, args=(name,))
            victim.start()
            time.sleep(chance.uniform(0, 0.06))
            waiters = [context.Process(target=wait_for, args=(name, queue)) for _ in range(2)]
            for waiter in waiters:
                waiter.start()
            time.sleep(chance.uniform(0, 0.03))
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()
            assert {take(queue) for _ in waiters} == {waiter.pid for waiter in waiters}
            for waiter in waiters:
                end(waiter)
            check(st.once(name, build, timeout=60))
        for number in range(3):
            st.once(f"random {seed} {number}", build, timeout=60)
            assert st.unpublish(f"random {seed} {number}")
        st.gc(older_than=0)  # messages of killed processes
    queue.close()


def build_and_stop(name: str, queue) -> None:
    def slow():
        queue.put("building")
        time.sleep(600)

    st.once(name, slow)


def test_waiter_builds_after_builder_death() -> None:
    context = mp.get_context("fork")
    queue, answers = context.SimpleQueue(), context.SimpleQueue()
    st.ones(1)
    victim = context.Process(target=build_and_stop, args=("dies", queue))
    victim.start()
    assert take(queue) == "building"
    waiters = [context.Process(target=wait_for, args=("dies", answers)) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    with pytest.raises(st.NotPublishedError, match="still being built"):
        st.once("dies", build, timeout=0.1)
    with pytest.raises(st.NotPublishedError):
        st.attach("dies", timeout=0.1)
    victim.kill()
    victim.join()
    assert {take(answers) for _ in waiters} == {waiter.pid for waiter in waiters}
    for waiter in waiters:
        end(waiter)
    found = st.attach("dies")
    assert found["pid"] in {waiter.pid for waiter in waiters}
    st.unpublish("dies")
    queue.close()
    answers.close()


def test_published_names_outlive_the_manager() -> None:
    done = run_python("""
        import os, signal, gc
        import shmtensor as st
        from tests.helpers.children import manager_pid
        st.publish("kept", st.SharedList(range(1000)))
        st.publish("other", st.ones(10))
        for _ in range(3):
            os.kill(manager_pid(st.stats()["session"]), signal.SIGKILL)
            gc.collect()
            assert st.attach("kept")[999] == 999
            assert st.gc(older_than=0) == 0
            assert st.attach("other").numpy().sum() == 10
        assert st.unpublish("kept")
        assert st.unpublish("other")
        blocks = st.stats()["blocks"]
        assert blocks == 0, blocks
    """)
    assert done.returncode == 0, done.stderr


def test_builder_and_manager_killed_together_block_no_waiter() -> None:
    done = run_python("""
        import os, signal, time
        import shmtensor as st, shmtensor.multiprocessing as mp
        from tests.helpers.children import manager_pid

        def stop(ready):
            st.once("name", lambda: (ready.put(1), time.sleep(600)))

        context = mp.get_context("fork")
        ready = context.SimpleQueue()
        mine = st.ones(1)
        victim = context.Process(target=stop, args=(ready,))
        victim.start()
        ready.get()
        os.kill(manager_pid(st.stats()["session"]), signal.SIGKILL)
        victim.kill()
        victim.join()
        assert st.once("name", lambda: "mine", timeout=30) == "mine"
    """)
    assert done.returncode == 0, done.stderr


def test_object_is_rebuilt_after_its_memory_is_lost() -> None:
    """Only the manager kept the object, and was killed: `attach` raises, `once` builds again."""
    done = run_python("""
        import os, signal, subprocess, sys
        import shmtensor as st
        from tests.helpers.children import manager_pid

        mine = st.ones(1)
        code = "import shmtensor as st; st.publish('gone', st.ones(1000)); st.publish('gone too', 1)"
        subprocess.run([sys.executable, "-c", code], check=True)
        os.kill(manager_pid(st.stats()["session"]), signal.SIGKILL)
        for name in ("gone", "gone too"):
            try:
                st.attach(name)
            except st.StaleHandleError:
                pass
            else:
                raise AssertionError("no process has it")
        assert st.once("gone", lambda: "again") == "again"
        assert st.attach("gone") == "again"
        assert st.unpublish("gone too")
    """)
    assert done.returncode == 0, done.stderr
