"""Sandboxes: no list of robust futexes, which reports the end of a killed manager; no /dev/shm."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.helpers.children import manager_pids, run_command, wait_until, write_program
from tests.helpers.namespaces import with_own_mounts, with_readonly_dev_shm, without_dev_shm
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


@pytest.mark.thorough
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


WITHOUT_LOCKS = """
    import sys
    import shmtensor as st
    import shmtensor.multiprocessing as mp

    def double(value):
        return value * 2

    def put(queue):
        queue.put(st.full(3, 7))

    if __name__ == "__main__":
        found = next(one for one in st.doctor() if one.name == "/dev/shm")
        assert not found.ok and "locks of multiprocessing" in found.text, found
        try:
            mp.Lock()
            raise AssertionError("there is a /dev/shm")
        except OSError:
            pass
        for method in mp.get_all_start_methods():
            context = mp.get_context(method)
            with context.Pool(2) as pool:
                assert pool.map(double, range(4)) == [0, 2, 4, 6]
                assert pool.apply(double, (st.full(3, 2),)).tolist() == [4] * 3
                for worker in pool._pool:
                    worker.kill()
                assert pool.map(double, range(4)) == [0, 2, 4, 6]
                pool.close()
                pool.join()
            queue = context.Queue()
            process = context.Process(target=put, args=(queue,))
            process.start()
            assert queue.get().tolist() == [7] * 3
            process.join()
        print("fine")
"""


@pytest.mark.thorough
@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "read-only"])
def test_pools_and_queues_need_no_dev_shm(tmp_path, is_missing: bool) -> None:
    """The pool had a lock of the standard library."""
    (folder := tmp_path / "dev").mkdir()
    command = without_dev_shm(folder) if is_missing else with_readonly_dev_shm()
    done = run_command([*command, sys.executable, str(write_program(tmp_path, WITHOUT_LOCKS))], timeout=100)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
