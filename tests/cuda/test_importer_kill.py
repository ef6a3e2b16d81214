"""A consumer that is killed while it opens what it received for the first time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers
from tests.cuda.device import Array
from tests.cuda.harness import case
from tests.cuda.segment import Part, Segment
from tests.cuda.workers import Pair

KINDS: dict[str, Callable[[], Any]] = {
    "own": lambda: st.ones(1000, device="cuda"),
    "a user's": lambda: st.asarray(Array(np.ones(1 << 19)))[:1000],  # has its own allocation
    "in pieces": lambda: st.asarray(Part(Segment(2), 0, np.ones(1000))),
}
MOMENTS = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008)  # seconds after the send


@pytest.mark.thorough
@case
def test_importer_killed_at_any_instant_leaks_nothing() -> None:
    for kind, make in KINDS.items():
        for moment in MOMENTS:
            pair = Pair(workers.answer)
            pair.put(st.zeros(1))
            assert pair.get(), "it runs, and has not used a driver yet"
            tensor = make()
            pair.put(tensor)
            time.sleep(moment)
            pair.kill()
            assert tensor.tolist() == [1] * 1000, (kind, moment)
            del tensor, pair
            gc.collect()
            st.gc(0)  # it may have been killed before it read the message
            device.wait_until(lambda: (st.stats() or {})["blocks"] == 0, f"the block, {kind}, {moment}")
            device.wait_until(lambda: Array.alive + Segment.alive == 0, f"the owner, {kind}, {moment}")
    device.wait_until(lambda: not device.simulated or used_bytes() == 0, "the memory")


def used_bytes() -> int:
    st.cuda.ipc_collect()
    return device.used_bytes()
