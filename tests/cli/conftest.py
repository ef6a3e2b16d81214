"""Fixtures: this process's session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

import shmtensor as st


@pytest.fixture
def session() -> str:
    """Return the id of this process's session, which exists."""
    st.ones(1)
    return st.stats()["session"]


@pytest.fixture
def alone() -> Iterator[dict[str, str]]:
    """Return the environment of a program that finds no sessions; its path is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield {"SHMTENSOR_RUNTIME_DIR": folder}
