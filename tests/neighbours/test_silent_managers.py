"""A stopped manager does not answer: one call waits for it, and the next ones do not wait as long."""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path

import pytest

from tests.helpers.children import manager_pids, run_python, wait_until

ROOT = {"PYTHONPATH": str(Path(__file__).parents[2])}

PROGRAM = """
    import os, signal, threading
    import shmtensor as st
    from tests.helpers.children import manager_pid, wait_until

    tensor = st.full(1000, 7)
    session = st.stats()["session"]
    manager = manager_pid(session)

    def attempt():
        try:
            st.stats()
        except st.SessionError as error:
            assert "did not answer within 10 seconds" in str(error), error
            return False
        return True

    os.kill(manager, signal.SIGSTOP)
    try:
        failed = []
        threads = [
            threading.Thread(target=lambda: failed.extend(not attempt() for _ in range(5))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == [True] * 20
        pid = os.fork()
        if pid == 0:
            os._exit(tensor.tolist() != [7] * 1000)
        assert os.waitpid(pid, 0)[1] == 0
    finally:
        os.kill(manager, signal.SIGCONT)
    wait_until(attempt, what="the answer")
    assert manager_pid(session) == manager, "it is not replaced"
    assert st.stats()["processes"] == 1
    assert tensor.tolist() == [7] * 1000

    # Another manager is given all of its time.
    os.kill(manager, signal.SIGSTOP)
    assert not attempt()
    os.kill(manager, signal.SIGKILL)
    wait_until(lambda: manager_pid(session) != manager if attempt() else False, what="the next manager")
    assert tensor.tolist() == [7] * 1000
"""


@pytest.mark.thorough
def test_calls_do_not_wait_for_a_stopped_manager_one_after_another() -> None:
    """Twenty calls took 200 seconds, and a fork ten more, in which all threads stood still."""
    session = secrets.token_hex(16)
    try:
        done = run_python(PROGRAM, timeout=90, env=ROOT | {"SHMTENSOR_SESSION": session})
        assert done.returncode == 0, done.stderr
        wait_until(lambda: not manager_pids(session), what="the manager to end")
    finally:
        for pid in manager_pids(session):
            os.kill(pid, signal.SIGKILL)
