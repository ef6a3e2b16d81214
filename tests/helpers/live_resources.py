"""Resources of the session before and after a test body."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import shmtensor as st
from tests.observer.snapshot import opened


def live_resources() -> tuple[int, int, int]:
    """Return the numbers of live blocks, of their bytes and of unread messages."""
    gc.collect()
    stats = st.stats()
    return stats["blocks"], stats["bytes_live"], stats["in_flight"]


def live_tickets() -> int:
    """Return the number of live tickets of this session; the statistics have none of queues."""
    with opened(st.stats()["session"], [os.getpid()]) as (memory, _):
        return sum(group.tickets for group in memory.groups)


@contextmanager
def assert_no_leaks() -> Iterator[None]:
    """Check that the body frees all that it allocates."""
    before = live_resources()
    yield
    assert live_resources() == before, "blocks, bytes, messages"
