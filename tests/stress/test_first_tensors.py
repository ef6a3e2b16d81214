"""Many threads of a process, or many processes of a session, create their first tensor simultaneously."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_python

PROGRAM = """
    import os, secrets, threading
    import shmtensor as st

    THREADS, PROCESSES = 8, 20

    def first(barrier, failures):
        barrier.wait()
        try:
            st.empty(10)
        except BaseException as error:
            failures.append(repr(error))

    def process():
        os.environ["SHMTENSOR_SESSION"] = secrets.token_hex(16)
        barrier, failures = threading.Barrier(THREADS), []
        threads = [threading.Thread(target=first, args=(barrier, failures)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for failure in failures:
            print(failure, flush=True)
        os._exit(1 if failures else 0)

    for _ in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            process()
        assert os.waitpid(pid, 0)[1] == 0
    """


def test_simultaneous_first_tensors_start_one_manager() -> None:
    """Regression: cannot start .../shmtensor-manager, FileNotFoundError, though the program existed.

    Each thread without a session set the path of the manager program, which replaced the string that another
    thread was just passing to the kernel.
    """
    done = run_python(PROGRAM, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


AT_ONCE = """
    import os, secrets
    import multiprocessing
    import shmtensor as st

    PROCESSES = 64
    os.environ["SHMTENSOR_SESSION"] = secrets.token_hex(16)
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(PROCESSES), context.SimpleQueue()

    def first():
        barrier.wait(60)
        tensor = st.ones(10)
        seen = st.stats()["session"], st.stats()["slot"], tensor.tolist() == [1] * 10
        barrier.wait(60)  # no process ends, so that no slot is reused
        results.put(seen)

    started = [context.Process(target=first) for _ in range(PROCESSES)]
    for process in started:
        process.start()
    seen = [results.get() for _ in started]
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    assert {session for session, _, _ in seen} == {os.environ["SHMTENSOR_SESSION"]}
    assert sorted(slot for _, slot, _ in seen) == list(range(PROCESSES))
    assert all(right for _, _, right in seen)
    """


@pytest.mark.thorough
def test_many_processes_of_named_session_start_simultaneously() -> None:
    """Each process finds no manager and starts one; one of these serves all processes."""
    for _ in range(3):
        done = run_python(AT_ONCE, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr


ONE_PROCESS = """
    import threading
    import shmtensor as st

    THREADS = 100
    barrier, tensors = threading.Barrier(THREADS), []

    def first():
        barrier.wait()
        tensors.append(st.empty(10))

    threads = [threading.Thread(target=first) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tensors) == THREADS
    print(st.stats()["arenas"])
"""


def test_threads_of_one_process_share_one_arena() -> None:
    """Regression: each of 100 threads created its own arena, with a descriptor and 256 GiB of addresses."""
    done = run_python(ONE_PROCESS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"]
