"""What the session has allocated, before and after."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import shmtensor as st


def live_resources() -> tuple[int, int, int]:
    """Blocks, their bytes and messages in flight."""
    gc.collect()
    stats = st.stats()
    return stats["blocks"], stats["bytes_live"], stats["in_flight"]


@contextmanager
def assert_no_leaks() -> Iterator[None]:
    """What the body allocates is free again at its end."""
    before = live_resources()
    yield
    assert live_resources() == before, "blocks, bytes, messages"
