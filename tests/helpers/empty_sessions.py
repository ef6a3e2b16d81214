"""Programs wait at their end until their session has nothing left."""

from __future__ import annotations

import gc

import shmtensor as st
from tests.helpers.children import wait_until


def is_empty() -> bool:
    """Return True if the session has neither blocks nor unread messages."""
    return (st.stats()["blocks"], st.stats()["in_flight"]) == (0, 0)


def wait_until_empty() -> None:
    """Wait until the session has neither blocks nor unread messages."""
    wait_until(is_empty, 60, lambda: str(st.stats()))


def wait_for_no_blocks() -> None:
    """Wait until the session, which this process has joined, has no block; collect its garbage meanwhile."""
    wait_until(_no_blocks, 60, lambda: str(st.stats()))


def _no_blocks() -> bool:
    gc.collect()
    return st.stats()["blocks"] == 0
