"""A cluster of Ray for the programs of a module's tests, and what these programs call.

A program is run with the argument "on" or "off", whether the integration is installed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import shmtensor as st
from tests.helpers.children import clean_environment, importing_tests
from tests.helpers.empty_sessions import wait_for_no_blocks

ON = sys.argv[-1] == "on"

QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}

_CLUSTER = """
import sys
import ray

options = {"include_dashboard": False, "object_store_memory": 400 << 20, "logging_level": "error"}
context = ray.init(num_cpus=8, _node_ip_address="127.0.0.1", _temp_dir=sys.argv[1], **options)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
ray.shutdown()
"""


@contextlib.contextmanager
def cluster(session: str) -> Iterator[dict[str, str]]:
    """Start a cluster with that session; yield the environment of programs that connect to it."""
    environment = {**importing_tests(), **QUIET, "SHMTENSOR_SESSION": session}
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:  # its path must be short
        process = subprocess.Popen(
            [sys.executable, "-c", _CLUSTER, folder],
            env=clean_environment(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process:
            yield {**environment, "RAY_ADDRESS": process.stdout.readline().strip()}
            process.stdin.close()
            process.wait(60)


@contextlib.contextmanager
def connected(**options) -> Iterator[None]:
    """Connect to the cluster, with the integration if it is on. The session is empty afterwards."""
    import ray

    if ON:
        st.install("ray")
    ray.init(os.environ["RAY_ADDRESS"], logging_level="error", **options)
    st.empty(1)  # joins the session, of which this process is to know the blocks
    try:
        yield
        wait_for_no_blocks()
    finally:
        ray.shutdown()


def transport(name: str = "SHMTENSOR") -> dict[str, str]:
    """Return the options of a method whose results travel by a transport."""
    return {"tensor_transport": name} if ON else {"num_returns": 1}


def place(tensor) -> str:
    """Return where a tensor's memory is: in a shared block, in a private view of one, or neither."""
    from shmtensor import _core

    if tensor.is_sparse:
        return "private"
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    if _core.storage_at(address, storage.nbytes()) is not None:
        return "shared"
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last and "shmtensor-" in line:
            return "view"
    return "private"
