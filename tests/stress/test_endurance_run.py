"""The load of `make endurance` for a few seconds."""

from __future__ import annotations

import json
import sys

import pytest

from tests.helpers.children import run_command


@pytest.mark.thorough
def test_short_endurance_run_leaks_nothing(strategy, tmp_path) -> None:
    out = tmp_path / "result.json"
    options = ["--minutes", "0.07", "--period", "0.5", "--out", str(out)]
    command = [sys.executable, "-m", "tests.endurance", *options]
    done = run_command(command, timeout=100, env={"SHMTENSOR_SHARING_STRATEGY": strategy})
    assert out.exists(), done
    result = json.loads(out.read_text())
    assert result["blocks left"] == 0
    assert result["batches"] > 100
    assert len({one["descriptors"] for one in result["looks"][1:]}) == 1, result["looks"]
