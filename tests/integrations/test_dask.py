"""Dask's workers and clients exchange values by handles, and programs notice nothing but the time."""

from __future__ import annotations

import pytest

from tests.helpers.children import assert_equal_output, importing_tests
from tests.helpers.dask_programs import QUIET, SHARDS
from tests.integrations.programs import PROGRAMS, succeed


def run_on_and_off(function: str) -> None:
    env = {**importing_tests(), **QUIET, **SHARDS}
    assert_equal_output(PROGRAMS / "dask_values.py", function, timeout=60, env=env)


def test_values_between_workers() -> None:
    """Equal in type, content, layout and flags; what a worker writes, the other one does not see."""
    run_on_and_off("among_workers")


def test_values_between_client_and_workers() -> None:
    """With and without a direct connection. The scheduler, which is in the client's process, gets bytes."""
    run_on_and_off("with_the_client")


def test_one_copy_for_all_readers_until_it_is_changed() -> None:
    """Also for a worker that sends on what it has received. What a task has changed is sent as it is then."""
    succeed("dask_sharing.py", "use_one_copy", "on", env=QUIET)


def test_tensors_are_shared() -> None:
    """A tensor, and an array over one, is the same memory in all workers, wherever it is in a message."""
    succeed("dask_sharing.py", "share_tensors", "on", env=QUIET)


@pytest.mark.parametrize("kind", ["array", "view", "tensor"])
def test_values_on_disk_contain_no_handle(tmp_path, kind) -> None:
    import numpy as np
    from distributed.spill import SpillBuffer

    import shmtensor as st
    from shmtensor._copies import copy_of, private_view

    st.install("dask")
    try:
        value = np.arange(100_000.0)
        if kind == "view":
            value = np.frombuffer(private_view(copy_of(value.view(np.uint8))))
        if kind == "tensor":
            value = st.asarray(value)
        buffer = SpillBuffer(str(tmp_path), target=1)
        buffer["x"] = value
        assert list(buffer.slow) == ["x"]
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) >= value.nbytes
        del value
        assert st.stats()["blocks"] == 0
        back = buffer["x"]
        assert (np.asarray(back) == np.arange(100_000.0)).all()
    finally:
        st.uninstall("dask")
