"""Workers of a pool that are killed while they get a task or put a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.children import run_beside

POINTS = ["take_claimed", "take_count", "take_notify", "put_count", "put_notify"]


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_task_of_a_killed_worker_fails_and_no_other(point: str, nth: int, tmp_path: Path) -> None:
    env = {"SHMTENSOR_FAULT_TOKENS": str(tmp_path)}
    done = run_beside(__file__, "pool_kill_points", f"queue.{point}:{nth}", "4", env=env, timeout=150)
    assert done.stdout == "fine\n", done
