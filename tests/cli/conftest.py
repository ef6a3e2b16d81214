"""Fixtures: this process's session."""

from __future__ import annotations

import pytest

import shmtensor as st


@pytest.fixture
def session() -> str:
    """Return the id of this process's session, which exists."""
    st.ones(1)
    return st.stats()["session"]
