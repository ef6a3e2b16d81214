"""The manager inherits no scheduling settings or limits of the process that starts it."""

from __future__ import annotations

import os

import pytest

from tests.helpers.children import await_end_of_manager, run_beside


@pytest.mark.thorough
def test_manager_keeps_no_setting_of_the_first_process() -> None:
    """Regression: started by a pinned, limited real-time loop, it did not answer others, or rejected them."""
    done = run_beside(__file__, "neutral_manager")
    assert done.returncode == 0, done.stderr
    session, scheduling, cpus, masks, score, folder, *limits = done.stdout.splitlines()
    await_end_of_manager(session)
    privileged = os.geteuid() == 0
    # Without privileges a process may only lower its priority.
    assert scheduling == f"{os.SCHED_OTHER} {0 if privileged else 7}"
    assert int(cpus) == len(os.sched_getaffinity(0))
    assert masks == "0077 0000000000000000"
    assert score == "0"
    assert folder == "/"
    for line in limits:
        soft, hard = line.split()
        assert soft == hard, limits
