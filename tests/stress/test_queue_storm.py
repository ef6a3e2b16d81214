"""A queue whose users are killed, stopped and replaced at random, in each of its forms."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.children import importing_tests, output, run_command


@pytest.mark.thorough
@pytest.mark.nightly
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--kills", "150"),
        ("--kills", "100", "--limit", "5"),
        ("--kills", "60", "--one-processor"),
        ("--kills", "60", "--wild"),
    ],
    ids=["unlimited", "limited", "one-processor", "manager-at-any-time"],
)
def test_killed_users_of_a_queue_stop_no_other(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.stress.queue_storm", "--seconds", "20", *arguments]
    print(output(run_command(command, timeout=200, env=importing_tests())))
