"""SIGKILL at every named point of the core, once and twice in a row: nothing is lost, nothing is overwritten.

The points are where the simulation does not come: the manager, forks, names, arenas, pools.
The build of the tests has them: the option SHMTENSOR_FAULT_POINTS of CMake, which no wheel has.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.children import output, run_beside

ROOT = Path(__file__).resolve().parents[2]
# Points that a process passes only once.
ONE_PASS = {"fork.child", "manager.adopt", "manager.claim"}
OF_POOLS = "queue."  # how the points begin at which `test_pool_kills.py` kills


def points() -> list[str]:
    """Return the points in the sources; a new one is tested without being listed here."""
    found = set()
    for path in (ROOT / "csrc").rglob("*.cpp"):
        found |= set(re.findall(r'SHMTENSOR_FAULT_POINT\("([a-z._]+)"\)', path.read_text()))
    return sorted(point for point in found if not point.startswith(OF_POOLS))


def test_every_step_has_kill_points() -> None:
    steps = {point.split(".")[0] for point in points()}
    assert steps == {"fork", "manager", "name", "register", "retire", "send", "session"}


@pytest.mark.thorough
@pytest.mark.parametrize("point", points())
def test_kill_at_each_point_loses_nothing(point, tmp_path) -> None:
    nth = 1 if point in ONE_PASS else 2
    ways = [("fork", 1, 1), ("spawn", 2, 1), ("fork", 2, nth), ("spawn", 1, nth)]

    def run(way):
        method, times, nth = way
        tokens = tmp_path / "-".join(map(str, way))
        tokens.mkdir()
        env = {"SHMTENSOR_FAULT_TOKENS": str(tokens)}
        name = "name_kill_points" if point.startswith("name.") else "kill_points"
        return run_beside(__file__, name, f"{point}:{nth}", method, str(times), env=env, timeout=120)

    with ThreadPoolExecutor(2) as pool:
        for way, done in zip(ways, pool.map(run, ways), strict=True):
            assert done.stdout == "fine\n", (way, done)


def test_arena_in_transit_is_registered_with_next_manager() -> None:
    """Regression: the other blocks of an arena in transit were lost.

    The manager's answer, with the arena's file, outlives the manager in a socket. The next manager searches
    the descriptors of processes, where this one is not yet. So a process that reads such an answer registers
    the arena.
    """
    assert output(run_beside(__file__, "killed_makers", "arena_in_transit")) == "7000.0\n"
