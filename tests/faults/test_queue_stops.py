"""SIGSTOP at every named point of a queue: its lock stays its own, and after SIGCONT all continue."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.test_kill_points import points
from tests.helpers.children import run_program

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("queue_stop_points_program.py")


@pytest.mark.thorough
@pytest.mark.parametrize("point", [p for p in points() if p.startswith(("queue.", "send.recorded"))])
def test_process_that_is_stopped_there_keeps_its_lock(point: str) -> None:
    env = {"PYTHONPATH": str(ROOT), "SHMTENSOR_FAULT_SIGNAL": str(int(signal.SIGSTOP))}
    done = run_program(PROGRAM, point, env=env)
    assert done.stdout == "fine\n", done
