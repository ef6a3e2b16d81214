"""What the session has allocated, before and after."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import shmtensor as st


def held() -> tuple[int, int, int]:
    """Blocks, their bytes and messages in flight."""
    gc.collect()
    stats = st.stats()
    return stats["blocks"], stats["bytes_live"], stats["in_flight"]


@contextmanager
def nothing_stays() -> Iterator[None]:
    """What the body allocates is free again at its end."""
    before = held()
    yield
    assert held() == before, "blocks, bytes, messages"
