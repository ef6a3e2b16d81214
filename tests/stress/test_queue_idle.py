"""Processes that wait in a queue, in each way there is, are woken."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.children import importing_tests, output, run_command


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_every_waiter_of_a_queue_gets_its_message() -> None:
    command = [sys.executable, "-m", "tests.stress.queue_idle", "--minutes", "0.02"]
    first, *rows, last = output(run_command(command, timeout=200, env=importing_tests())).splitlines()
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
