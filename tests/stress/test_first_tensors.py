"""Many threads of a process make its first tensor."""

from __future__ import annotations

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


def test_they_start_one_manager_and_all_succeed() -> None:
    """The torture's third find.

    Each thread that had no session yet told the runtime where the manager program lies, which replaced
    the text that a thread before it was just handing to the kernel: FileNotFoundError, "cannot start
    .../shmtensor-manager", now and then, although the program was there.
    """
    done = run_python(PROGRAM, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
