"""How the tests are reported on a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cuda.harness import ROOT


@pytest.mark.thorough
def test_what_only_the_simulator_shows_is_skipped_on_a_gpu() -> None:
    """Regression: such tests returned immediately there, and counted as passed."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-rs", "-p", "no:cacheprovider"]
    tests = "tests/cuda/test_deferred_release.py"
    done = subprocess.run(
        [*command, tests], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout
    summary = done.stdout.splitlines()[-1]
    assert " skipped" in summary
    assert " passed" not in summary
    assert "on the simulated driver only: needs faults that the simulator injects" in done.stdout
