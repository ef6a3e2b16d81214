"""Killed workers and clients during transfers: what Dask computes again is right, nothing is left."""

from __future__ import annotations

import pytest

from tests.helpers.dask_programs import QUIET
from tests.integrations.programs import succeed

ENVIRONMENT = {
    **QUIET,
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "100",
    # So long after a worker's end, LocalCluster gives up a worker that is not there at that instant, which a
    # later kill may have ended.
    "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1h",
}


@pytest.mark.parametrize(
    ("at", "place", "victim"),
    [
        ("first", "taken out", "first"),
        ("second", "to be loaded", "first"),
        ("second", "to be loaded", "second"),
    ],
)
def test_worker_is_killed(at, place, victim) -> None:
    """The sender before the message, the sender before the receiver uses it, and the receiver."""
    succeed("dask_faults.py", "kill_worker", at, place, victim, "on", env=ENVIRONMENT)


@pytest.mark.parametrize("call", ["scatter", "gather"])
def test_client_is_killed(call) -> None:
    """During a direct transfer: while it has handed out handles, or is about to use some."""
    succeed("dask_faults.py", "kill_client", call, "on", env=ENVIRONMENT)


@pytest.mark.thorough
def test_workers_are_killed_at_random_instants() -> None:
    succeed("dask_faults.py", "kill_at_random", "on", env=ENVIRONMENT)
