"""A stopped manager does not answer: one call waits for it, and the next ones do not wait as long."""

from __future__ import annotations

import os
import secrets
import signal

import pytest

from tests.helpers.children import await_end_of_manager, manager_pids, output, run_beside


@pytest.mark.thorough
def test_calls_do_not_wait_for_a_stopped_manager_one_after_another() -> None:
    """Twenty calls took 200 seconds, and a fork ten more, in which all threads stood still."""
    session = secrets.token_hex(16)
    try:
        output(run_beside(__file__, "silent_managers", timeout=90, env={"SHMTENSOR_SESSION": session}))
        await_end_of_manager(session)
    finally:
        for pid in manager_pids(session):
            os.kill(pid, signal.SIGKILL)
