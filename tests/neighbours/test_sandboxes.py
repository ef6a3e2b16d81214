"""Sandboxes: no list of robust futexes, which reports the end of a killed manager; no /dev/shm."""

from __future__ import annotations

import os
import sys

import pytest

from tests.helpers.children import await_end_of_session, importing_tests, program_beside, run_command
from tests.helpers.namespaces import with_own_mounts, with_readonly_dev_shm, without_dev_shm
from tests.helpers.system_call_filter import forbidding

ENOSYS, EPERM = 38, 1
SET_ROBUST_LIST = 273 if os.uname().machine == "x86_64" else 99


@pytest.mark.thorough
@pytest.mark.parametrize("error", [ENOSYS, EPERM])
def test_session_outlives_its_manager_without_robust_futexes(error, tmp_path) -> None:
    """The killed manager counted as alive, and the session could not be used any more."""
    missing = forbidding(tmp_path, error, SET_ROBUST_LIST)
    command = [*missing, str(program_beside(__file__, "killed_managers"))]
    await_end_of_session(run_command(command, env=importing_tests()))


def test_missing_robust_futexes_and_proc_are_reported(tmp_path) -> None:
    """Before anything is shared: no other process would notice that this manager was killed."""
    hide = 'mount -t tmpfs tmpfs /proc && exec "$0" "$@"'
    missing = forbidding(tmp_path, ENOSYS, SET_ROBUST_LIST)
    done = run_command([*with_own_mounts(hide), *missing, "-c", "import shmtensor; shmtensor.ones(1)"])
    assert done.returncode == 1
    assert "allow set_robust_list in the seccomp profile, or mount /proc" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "read-only"])
def test_pools_and_queues_need_no_dev_shm(tmp_path, is_missing: bool) -> None:
    """The pool had a lock of the standard library."""
    (folder := tmp_path / "dev").mkdir()
    command = without_dev_shm(folder) if is_missing else with_readonly_dev_shm()
    done = run_command([*command, sys.executable, str(program_beside(__file__, "without_dev_shm"))])
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
