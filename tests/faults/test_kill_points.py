"""SIGKILL at every named point of the core, once and twice in a row: nothing is lost, nothing is overwritten.

The points are compiled in by the build option SHMTENSOR_FAULT_POINTS; `make test` keeps such a build beside
the ordinary one.
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.children import run_program

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.prefix) / "fault-points"
PROGRAM = Path(__file__).with_name("kill_points_program.py")

# A process comes by here only once.
ONE_PASS = {"fork.child", "manager.adopt"}


def points() -> list[str]:
    """Every point that stands in the sources, so that a new one is tested without being listed here."""
    found = set()
    for path in (ROOT / "csrc").rglob("*.cpp"):
        found |= set(re.findall(r'SHMTENSOR_FAULT_POINT\("([a-z._]+)"\)', path.read_text()))
    return sorted(found)


def test_there_are_points_in_every_step() -> None:
    steps = {point.split(".")[0] for point in points()}
    assert steps >= {"allocate", "hold", "send", "release", "free", "fork", "register", "session", "manager"}


@pytest.mark.parametrize("point", points())
def test_a_kill_there_loses_nothing(point, tmp_path) -> None:
    assert (BUILD / "shmtensor").is_dir(), "build it with: make test-python"
    nth = 1 if point in ONE_PASS else 2
    ways = [("fork", 1, 1), ("spawn", 2, 1), ("fork", 2, nth), ("spawn", 1, nth)]

    def run(way):
        method, times, nth = way
        tokens = tmp_path / "-".join(map(str, way))
        tokens.mkdir()
        env = {"PYTHONPATH": os.pathsep.join([str(BUILD), str(ROOT)]), "SHMTENSOR_FAULT_TOKENS": str(tokens)}
        return run_program(PROGRAM, f"{point}:{nth}", method, str(times), env=env, timeout=60)

    with ThreadPoolExecutor(2) as pool:
        for way, done in zip(ways, pool.map(run, ways), strict=True):
            assert done.stdout == "fine\n", (way, done)
