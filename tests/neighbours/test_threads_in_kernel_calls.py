"""While the kernel reserves or frees pages of a large tensor, other threads continue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import shmtensor as st

SIZE = 1 << 30  # takes the kernel tenths of a second


@contextmanager
def counted(turn: Callable[[], object]) -> Iterator[list[int]]:
    """Count the iterations of another thread in that time."""
    turns, stop = [0], threading.Event()

    def work() -> None:
        while not stop.is_set():
            turn()
            turns[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield turns
    finally:
        stop.set()
        thread.join()


def small() -> None:
    del_me = st.empty(10)
    del del_me


def pure() -> None:
    sum(range(1000))


@pytest.mark.thorough
def test_large_allocation_and_gc_do_not_block_other_threads() -> None:
    """Regression: a thread that allocated 80 bytes waited for the arena's lock with the GIL held."""
    small()
    with counted(small) as tensors, counted(pure) as others:
        before = tensors[0], others[0]
        large = st.empty(SIZE, dtype="uint8")
        assert tensors[0] - before[0] > 20
        assert others[0] - before[1] > 20
        before = tensors[0], others[0]
        del large
        st.gc()
        assert tensors[0] - before[0] > 20
        assert others[0] - before[1] > 20
