"""A short run of the torture program; `make torture` is the long one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.helpers.children import clean_environment


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_short_torture_run_finds_no_problem(tmp_path) -> None:
    out = tmp_path / "result.json"
    command = [sys.executable, "-m", "tests.torture", "--seed", "short", "--rounds", "1", "--out", str(out)]
    command += ["--processes", "4", "--slices", "2", "--seconds", "4"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=280, env=clean_environment()
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert not result["faults"]
    assert result["kills"] > 5
    assert result["counts"]["received"] > 20, "the actors exchanged messages"
    assert result["counts"]["received from queues"] > 20
    assert result["counts"]["queues drained"] > 0
    assert result["counts"]["switches of greenlets"] > 0
    assert result["counts"]["checkpoints"] >= 4
    assert result["counts"]["blocks seen"] > 0, "the observer read blocks"
