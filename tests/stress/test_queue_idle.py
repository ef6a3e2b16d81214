"""Processes that wait in a queue, in each way there is, are woken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.children import run_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_every_waiter_of_a_queue_gets_its_message() -> None:
    command = [sys.executable, "-m", "tests.stress.queue_idle", "--minutes", "0.02"]
    done = run_command(command, timeout=200, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done
    first, *rows, last = done.stdout.splitlines()
    assert first.startswith("processor time during ")
    assert [row.split()[0] for row in rows] == [
        "get",
        "get(timeout)",
        "aget",
        "select",
        "put",
        "reader",
        "manager",
    ]
    assert last == "every waiter got its message"
