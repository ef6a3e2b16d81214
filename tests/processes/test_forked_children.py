"""Promise 15: a forked child is a holder in its own right before the parent can release."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import end, run_python, running, wait_until
from tests.helpers.queues import take


def wait_and_check(go, expected, tensors, answers) -> None:
    go.wait(30)
    time.sleep(0.01)
    answers.put(all((tensor.numpy() == value).all() for value, tensor in zip(expected, tensors, strict=True)))


def test_parent_frees_and_reuses_while_children_read(strategy) -> None:
    """The fork rule under load: memory that the child inherited is not allocated again."""
    context = mp.get_context("fork")
    answers = context.SimpleQueue()
    for round_ in range(10):
        go = context.Event()
        values = [round_ * 100 + i for i in range(20)]
        tensors = [st.full(1000, value) for value in values]
        children = [
            context.Process(target=wait_and_check, args=(go, values, tensors, answers)) for _ in range(2)
        ]
        for child in children:
            child.start()
        del tensors
        for child in children:  # their arguments refer to the tensors, too
            child._args = ()
        gc.collect()
        reused = [st.full(1000, -1) for _ in range(60)]
        go.set()
        assert [take(answers) for _ in children] == [True, True]
        assert (reused[0].numpy() == -1).all()
        for child in children:
            end(child)


class Filling(mp.get_context("fork").Process):
    """A Process subclass with a tensor, as in torch's test_inherit_tensor."""

    def __init__(self, tensor: st.Tensor) -> None:
        super().__init__()
        self.tensor = tensor

    def run(self) -> None:
        self.tensor.fill_(3)


def test_process_subclass_inherits_its_tensor(strategy) -> None:
    tensor = st.zeros(4)
    process = Filling(tensor)
    process.start()
    end(process)
    assert tensor.tolist() == [3, 3, 3, 3]


def test_child_allocates_and_sends_inherited_tensors(strategy) -> None:
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    tensor = st.ones(5)

    def child() -> None:
        own = st.full(5, 2.0)
        queue.put([tensor, own])

    with running(context, child):
        inherited, own = take(queue)
    assert inherited.storage() is tensor.storage()
    assert own.tolist() == [2] * 5


def test_grandchildren_are_holders(strategy) -> None:
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    kept = [st.full(100, 4.0)]

    def grandchild() -> None:
        time.sleep(0.05)
        queue.put(float(kept[0].numpy().sum()))

    def child() -> None:
        context.Process(target=grandchild).start()
        os._exit(0)  # it does not wait: the grandchild still reads

    process = context.Process(target=child)
    process.start()
    end(process)
    kept.clear()
    for _ in range(20):
        st.full(100, 0.0)
    assert take(queue) == 400


def test_child_that_exits_immediately_releases_its_references(strategy) -> None:
    tensor = st.ones(10)
    before = st.stats()["processes"]
    for _ in range(20):
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    del tensor
    wait_until(lambda: st.stats()["processes"] <= before, what="twenty dead children to be noticed")


def test_child_that_execs_releases_its_references(strategy) -> None:
    """The process continues in a program without the package."""
    tensor = st.ones(1000)
    before = st.stats()
    if (pid := os.fork()) == 0:
        os.execv("/bin/sleep", ["sleep", "30"])
    try:
        wait_until(lambda: st.stats()["processes"] <= before["processes"], what="the exec to be noticed")
        del tensor
        gc.collect()
        assert st.stats()["blocks"] == before["blocks"] - 1
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.mark.thorough
def test_forks_among_busy_threads(strategy) -> None:
    """A fork never copies a lock that a thread holds while it allocates, sends or frees.

    No ufunc of NumPy is called, since each has a lock on free-threaded Python.
    """
    done = run_python(
        """
        import os, sys, threading
        import shmtensor as st
        import shmtensor.multiprocessing as mp
        mp.set_sharing_strategy(sys.argv[1])
        stop = threading.Event()
        def busy():
            queue = mp.SimpleQueue()
            while not stop.is_set():
                queue.put(st.ones(100))
                assert queue.get().tolist() == [1] * 100
        threads = [threading.Thread(target=busy) for _ in range(4)]
        for thread in threads: thread.start()
        held = [st.full(50, i) for i in range(50)]
        for _ in range(60):
            if (pid := os.fork()) == 0:
                ok = all(t.tolist() == [i] * 50 for i, t in enumerate(held))
                ok = ok and st.full(10, 3).tolist() == [3] * 10
                os._exit(0 if ok else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for thread in threads: thread.join()
        print("fine")
        """,
        arguments=(strategy,),
        timeout=100,
    )
    assert done.stdout == "fine\n", done


def test_child_forked_during_a_send_adds_nothing_to_the_message() -> None:
    """Regression: a child forked during a send recorded its own sends in the parent's message."""
    done = run_python(
        """
        import os, pickle
        from multiprocessing.reduction import ForkingPickler
        import shmtensor as st, shmtensor.multiprocessing
        from shmtensor import _core
        tensor = st.ones(10)
        with _core.SendScope() as message:
            first = bytes(ForkingPickler.dumps(tensor))
            before = len(message.tickets())
            if (pid := os.fork()) == 0:
                received = [pickle.loads(ForkingPickler.dumps(one)) for one in (tensor, st.ones(5))]
                os._exit(not (before > 0 and len(message.tickets()) == before))
            assert os.waitpid(pid, 0)[1] == 0
            pickle.loads(first)
        print("fine")
        """
    )
    assert done.stdout == "fine\n", done


def test_programs_started_by_subprocess_are_not_holders(strategy) -> None:
    tensor = st.ones(10)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    before = st.stats()["blocks"]
    del tensor
    assert st.stats()["blocks"] == before - 1
    process.communicate(b"\n", timeout=30)


@pytest.mark.parametrize("_", range(3))
def test_fork_from_a_thread(strategy, _) -> None:
    tensor = st.asarray(np.arange(10))
    codes = []

    def fork() -> None:
        if (pid := os.fork()) == 0:
            os._exit(int(tensor.numpy().sum() == 45))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join(30)
    assert codes == [1]
