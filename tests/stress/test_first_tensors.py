"""Many threads of a process, or many processes of a session, create their first tensor simultaneously."""

from __future__ import annotations

import pytest

from tests.helpers.children import importing_tests, output, run_python

PROGRAM = """
    import os, secrets
    import shmtensor as st
    from tests.helpers.children import fork
    from tests.helpers.threads import run_together

    def process():
        os.environ["SHMTENSOR_SESSION"] = secrets.token_hex(16)
        run_together(*[lambda: st.empty(10)] * 8)

    for _ in range(20):
        assert os.waitpid(fork(process), 0)[1] == 0
    """


def test_simultaneous_first_tensors_start_one_manager() -> None:
    """Regression: cannot start .../shmtensor-manager, FileNotFoundError, though the program existed.

    Each thread without a session set the path of the manager program, which replaced the string that another
    thread was just passing to the kernel.
    """
    output(run_python(PROGRAM, env=importing_tests()))


AT_ONCE = """
    import multiprocessing, os, secrets
    import shmtensor as st
    from tests.helpers.children import fork

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

    started = [fork(first) for _ in range(PROCESSES)]
    seen = [results.get() for _ in started]
    assert {os.waitpid(pid, 0)[1] for pid in started} == {0}
    assert {session for session, _, _ in seen} == {os.environ["SHMTENSOR_SESSION"]}
    assert sorted(slot for _, slot, _ in seen) == list(range(PROCESSES))
    assert all(right for _, _, right in seen)
    """


@pytest.mark.thorough
def test_many_processes_of_named_session_start_simultaneously() -> None:
    """Each process finds no manager and starts one; one of these serves all processes."""
    for _ in range(3):
        output(run_python(AT_ONCE, env=importing_tests()))


def test_threads_of_one_process_share_one_arena() -> None:
    """Regression: each of 100 threads created its own arena, with a descriptor and 256 GiB of addresses."""
    program = """
        import shmtensor as st
        from tests.helpers.threads import run_together

        tensors = []
        run_together(*[lambda: tensors.append(st.empty(10))] * 100)
        assert len(tensors) == 100
        print(st.stats()["arenas"])
    """
    assert output(run_python(program, env=importing_tests())) == "1\n"
