"""Allocations in a /dev/shm of 64 MiB; `test_shm_full.py` runs it."""

import os
from contextlib import suppress

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp


def used():
    space = os.statvfs("/dev/shm")
    return (space.f_blocks - space.f_bfree) * space.f_frsize


mp.set_sharing_strategy("file_system")
small = st.full(1 << 20, 1, np.uint8)
st.gc()
before = used(), st.stats()["bytes_live"], st.stats()["blocks"]
for _ in range(3):
    try:
        st.full(200 << 20, 1, np.uint8)
    except MemoryError as error:
        text = str(error)
        for part in ("200 MiB", "/dev/shm", "of 64 MiB", "--shm-size", "file_descriptor"):
            assert part in text, (part, text)
    else:
        raise AssertionError("there was room")
    st.gc()
    assert (used(), st.stats()["bytes_live"], st.stats()["blocks"]) == before
# To the brim, tensor by tensor: never a SIGBUS.
kept = []
with suppress(st.OutOfSharedMemory):
    while True:
        kept.append(st.full(1 << 20, 7, np.uint8))
assert len(kept) > 50, len(kept)
assert all((tensor.numpy() == 7).all() for tensor in kept)
# Other users of /dev/shm leave no room even for the first page of an arena.
kept.clear()
st.gc()
with open("/dev/shm/filler", "wb", buffering=0) as filler:
    with suppress(OSError):
        while True:
            filler.write(bytes(1 << 16))
    with suppress(st.OutOfSharedMemory):
        st.full(8 << 20, 1, np.uint8)
    mp.set_sharing_strategy("file_descriptor")
    assert st.full(8 << 20, 1, np.uint8).numpy().sum() == 8 << 20
    filler.truncate(0)
os.unlink("/dev/shm/filler")
mp.set_sharing_strategy("file_system")
assert st.full(8 << 20, 2, np.uint8).numpy().sum() == 16 << 20
print("fine")
