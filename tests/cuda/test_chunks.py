"""Chunks of GPU memory, as another manager and another process know them."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest

import shmtensor as st
from tests.cuda import workers
from tests.cuda.harness import case
from tests.cuda.workers import Pair


@case
def test_new_manager_learns_chunks() -> None:
    from tests.helpers.children import kill_manager_of

    tensor = st.asarray([4, 5], device="cuda")
    kill_manager_of(st.stats()["session"])
    pair = Pair(workers.answer)
    pair.put(tensor)
    assert pair.get() == [([4, 5], "cuda:0", False)]
    pair.end()


RECORDS, CHUNKS = 65536, 4096  # csrc/arena/layout.hpp
DEVICE = 3


def device_arena() -> mmap.mmap:
    """Return the control segment of this process's arena on a device."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            link = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if "memfd:shmtensor" in link and "-session" not in link:
            opened = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
            mapped = mmap.mmap(opened, RECORDS * 2)
            os.close(opened)
            if int.from_bytes(mapped[12:16], "little") == DEVICE:
                return mapped
    raise AssertionError("there is no arena on a device")


@case
def test_peer_cannot_enlarge_a_mapped_chunk() -> None:
    """Regression: the size in the table was trusted after the chunk was mapped."""
    tensor = st.ones(1000, device="cuda")
    message = bytes(ForkingPickler.dumps(tensor))
    del tensor
    gc.collect()
    mapped = device_arena()
    chunk = ctypes.c_uint64.from_buffer(mapped, CHUNKS)
    size = ctypes.c_uint64.from_buffer(mapped, RECORDS + 16)
    before = chunk.value, size.value
    chunk.value, size.value = 1 << 39, 1 << 38
    with pytest.raises(st.SessionError, match="refers to memory outside"):
        pickle.loads(message)
    chunk.value, size.value = before
