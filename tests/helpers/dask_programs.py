"""What programs of the tests of Dask begin with, and what they run in workers.

A program is run with the argument "on" or "off", whether the integration is installed.
"""

from __future__ import annotations

import contextlib
import sys

import numpy as np

import shmtensor as st
from tests.helpers.empty_sessions import wait_for_no_blocks

QUIET = {
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical",
    "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False",  # no worker drops its copy
}
SHARDS = {"DASK_DISTRIBUTED__COMM__SHARD": "1MiB"}  # a longer buffer is several frames

WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard"]
PRELOAD = ["--preload", "shmtensor.integrations.dask"]  # for a worker

ON = sys.argv[-1] == "on"


@contextlib.contextmanager
def cluster(workers: int = 2, **options):
    """Start workers and a client; yield it and the workers' addresses. The session is empty afterwards."""
    from distributed import Client, LocalCluster

    if ON:
        st.install("dask")
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0, **options
        ) as started,
        Client(started) as client,
    ):
        yield client, sorted(client.scheduler_info()["workers"])
        if ON:
            wait_for_no_blocks()


def owner(array: np.ndarray) -> str:
    """Return what an array's memory is: a private view of a block, a shared block, or the process's own."""
    from shmtensor import _copies, _core

    found = _copies.owner_of(array)
    if isinstance(found, _core.PrivateView):
        return "view"
    return "private" if _core.tensor_over_buffer(np.ascontiguousarray(array)) is None else "shared"
