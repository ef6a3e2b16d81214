"""Checks that the build has the points at which these tests kill processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from shmtensor import _core


@pytest.fixture(scope="session", autouse=True)
def fault_points() -> None:
    if b"SHMTENSOR_FAULT_TOKENS" not in Path(_core.__file__).read_bytes():
        pytest.fail("this build of shmtensor has no fault points; make test-python installs one that has")
