"""Resources of the session before and after a test body."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import shmtensor as st
from tests.helpers.children import wait_until
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
    """Check that all that the body allocates is freed.

    The manager frees what processes have left, such as messages that were not read to the end, and another
    process holds a message until its `put` has returned.
    """
    before = live_resources()
    yield
    wait_until(
        lambda: live_resources() == before,
        what=lambda: f"blocks, bytes, messages {before}, not {live_resources()}",
    )
