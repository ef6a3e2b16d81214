"""Processes that are killed at random instants harm no other."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.children import output, run_command


@pytest.mark.thorough
def test_storm_of_kills() -> None:
    """In a program of its own, whose manager is killed, too."""
    result = run_command([sys.executable, "-m", "tests.locks.storm", "500"])
    assert output(result).startswith("500 killed")
