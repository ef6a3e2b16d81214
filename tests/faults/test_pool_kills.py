"""Workers of a pool that are killed at each point at which they get a task or put a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.children import run_beside

GET = ["take_locked", "take_rings", "take_claimed", "take_count", "take_unlock", "take_notify"]
PUT = ["put_locked", "put_count", "put_unlock", "put_notify"]


@pytest.mark.parametrize(
    ("point", "nth"), [("announced", 1), *((point, nth) for point in GET + PUT for nth in (1, 3))]
)
def test_task_of_a_killed_worker_fails_and_no_other(point: str, nth: int, tmp_path: Path) -> None:
    env = {"SHMTENSOR_FAULT_TOKENS": str(tmp_path)}
    done = run_beside(__file__, "pool_kill_points", f"queue.{point}:{nth}", "4", env=env, timeout=150)
    assert done.stdout == "fine\n", done
