"""SIGSTOP at every named point of a queue: its lock stays its own, and after SIGCONT all continue."""

from __future__ import annotations

import signal

import pytest

from tests.faults.test_kill_points import points
from tests.helpers.children import output, run_beside


@pytest.mark.thorough
@pytest.mark.parametrize("point", [p for p in points() if p.startswith(("queue.", "send.recorded"))])
def test_process_that_is_stopped_there_keeps_its_lock(point: str) -> None:
    env = {"SHMTENSOR_FAULT_SIGNAL": str(int(signal.SIGSTOP))}
    assert output(run_beside(__file__, "queue_stop_points", point, env=env)) == "fine\n"
