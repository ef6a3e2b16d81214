"""Resources of the session before and after a test body."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import shmtensor as st


def live_resources() -> tuple[int, int, int]:
    """Return the numbers of live blocks, of their bytes and of unread messages."""
    gc.collect()
    stats = st.stats()
    return stats["blocks"], stats["bytes_live"], stats["in_flight"]


@contextmanager
def assert_no_leaks() -> Iterator[None]:
    """Check that the body frees all that it allocates."""
    before = live_resources()
    yield
    assert live_resources() == before, "blocks, bytes, messages"
