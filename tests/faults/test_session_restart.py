"""A session that starts again under its id after all its processes were killed simultaneously."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys

import pytest

from tests.helpers.children import clean_environment, manager_pid, manager_pids, run_python, wait_until
from tests.helpers.leaks import names_kept, shm_names

FIRST = "import shmtensor as st, sys; t = st.ones(10); print('there', flush=True); sys.stdin.read()"
AGAIN = """
    import shmtensor as st
    tensors = [st.ones(10_000_000) for _ in range(3)]
    assert st.stats()["blocks"] == 3
    print(st.stats()["session"])
    """


@pytest.mark.thorough
@pytest.mark.parametrize("times", [1, 3])
def test_restarted_session_ignores_stale_names(times) -> None:
    """Regression: arenas of a session that was started again could not be created: FileExistsError.

    A parent names the session in the environment before it starts. The child that started it was killed with
    the manager, and the name of its arena stayed in /dev/shm. The next child started the session again and
    counted arenas from one. The sweep had kept the name, because it considers a session alive if its manager
    listens. So a manager that starts a session removes what an earlier one of that id has left.
    """
    session = secrets.token_hex(16)
    settings = {"SHMTENSOR_SESSION": session, "SHMTENSOR_SHARING_STRATEGY": "file_system"}
    for _ in range(times):
        process = subprocess.Popen(
            [sys.executable, "-c", FIRST],
            env=clean_environment(**settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "there\n"
        victims = [manager_pid(session), process.pid]
        with names_kept(session):
            for kind in (signal.SIGSTOP, signal.SIGKILL):
                for pid in victims:
                    os.kill(pid, kind)
            process.wait(30)
            process.stdin.close()
            process.stdout.close()
            wait_until(lambda: not manager_pids(session), what="the manager to be gone")
            assert shm_names(session), "a name was left"
    assert run_python(AGAIN, env=settings).stdout.strip() == session
    wait_until(lambda: not manager_pids(session), what="the session to end")
    assert not shm_names(session)
