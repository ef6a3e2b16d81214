"""Objects of `share` in joblib, loky and multiprocess: handles both ways, as in `multiprocessing`."""

from __future__ import annotations

import pytest

from tests.integrations.programs import succeed

TRANSPORTS = [
    "joblib loky",
    "joblib multiprocessing",
    "joblib shmtensor",
    "loky",
    "multiprocess forkserver",
    "multiprocess spawn",
]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_shared_objects_are_handles(transport) -> None:
    # polars must not be used in a forked process.
    succeed("share_elsewhere.py", transport, env={"JOBLIB_START_METHOD": "forkserver"})
