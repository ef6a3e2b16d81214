"""The next owner of a lock repairs a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.children import output, run_command


@pytest.mark.parametrize("method", ["fork", "spawn", "server"])
def test_next_owner_repairs_what_a_killed_one_left(method: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.locks.ledger", method, str(tmp_path / "ledger")]
    assert output(run_command(command)) == "239 True [2]\n"  # 4 * 50 + 2 * 19 + 1 records
