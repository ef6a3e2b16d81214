"""Sandboxes without the kernel's list of robust futexes, which reports the end of a killed manager."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.children import manager_pids, run_command, wait_until, write_program
from tests.helpers.namespaces import with_own_mounts
from tests.helpers.system_call_filter import forbidding

ROOT = {"PYTHONPATH": str(Path(__file__).parents[2])}
ENOSYS, EPERM = 38, 1
SET_ROBUST_LIST = 273 if os.uname().machine == "x86_64" else 99

PROGRAM = """
    import os, pickle
    from multiprocessing.reduction import ForkingPickler
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from tests.helpers.children import end, kill_manager_of

    def send_late(queue, go):
        tensor = st.full(1000, 5)
        queue.put("ready")
        go.recv()
        queue.put(tensor)

    if __name__ == "__main__":
        tensor = st.full(1000, 7)
        session = st.stats()["session"]
        context = mp.get_context("fork")
        queue, (ours, theirs) = context.Queue(), context.Pipe()
        sender = context.Process(target=send_late, args=(queue, theirs))
        sender.start()
        assert queue.get() == "ready"
        kill_manager_of(session)
        ours.send("go")
        end(sender)
        assert queue.get().tolist() == [5] * 1000, "its sender has started the next manager"
        kill_manager_of(session)
        assert st.stats()["processes"] == 1
        assert tensor.tolist() == [7] * 1000
        assert pickle.loads(ForkingPickler.dumps(tensor)).storage() is tensor.storage()
        pid = os.fork()
        if pid == 0:
            os._exit(st.full(3, int(tensor[0])).tolist() != [7] * 3)
        assert os.waitpid(pid, 0)[1] == 0
        print(session)
"""


@pytest.mark.parametrize("error", [ENOSYS, EPERM])
def test_session_outlives_its_manager_without_robust_futexes(error, tmp_path) -> None:
    """The killed manager counted as alive, and the session could not be used any more."""
    missing = forbidding(tmp_path, error, SET_ROBUST_LIST)
    done = run_command([*missing, str(write_program(tmp_path, PROGRAM))], env=ROOT)
    assert done.returncode == 0, done.stderr
    session = done.stdout.strip()
    wait_until(lambda: not manager_pids(session), what="the manager to end")


def test_missing_robust_futexes_and_proc_are_reported(tmp_path) -> None:
    """Before anything is shared: no other process would notice that this manager was killed."""
    hide = 'mount -t tmpfs tmpfs /proc && exec "$0" "$@"'
    missing = forbidding(tmp_path, ENOSYS, SET_ROBUST_LIST)
    done = run_command([*with_own_mounts(hide), *missing, "-c", "import shmtensor; shmtensor.ones(1)"])
    assert done.returncode == 1
    assert "allow set_robust_list in the seccomp profile, or mount /proc" in done.stderr
