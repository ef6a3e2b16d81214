"""A process that adopts orphans (PID 1 of a container, a subreaper) is the parent of its managers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.children import manager_pids, run_python, wait_until

ROOT = {"PYTHONPATH": str(Path(__file__).parents[2])}

PROGRAM = """
    import ctypes, os, subprocess, sys
    import shmtensor as st
    from tests.helpers.children import kill_manager_of, wait_until

    assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER

    def children():
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return set(map(int, file.read().split()))

    def only_the_manager():
        st.gc()  # reaps a manager that took its time to end
        return len(children()) == 1

    tensor = st.full(1000, 7)
    session = st.stats()["session"]
    assert only_the_manager()
    for _ in range(3):
        kill_manager_of(session)
        assert st.stats()["processes"] == 1
        wait_until(only_the_manager, what="the killed manager to be reaped")
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    kill_manager_of(session)
    assert tensor.tolist() == [7] * 1000 and st.stats()["processes"] == 1
    wait_until(lambda: st.gc() or len(children()) == 2, what="the last one to be reaped")
    assert child.wait() == 3, "another child's status is left to the program"
    print(session)
"""


@pytest.mark.thorough
def test_killed_managers_are_reaped() -> None:
    """Each stayed as a zombie until the program ended."""
    done = run_python(PROGRAM, env=ROOT)
    assert done.returncode == 0, done.stderr
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")
