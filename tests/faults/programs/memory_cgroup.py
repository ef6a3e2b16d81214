"""Processes that fill a memory cgroup.

`test_system_limits.py` runs it. Arguments: FOLDER, or FOLDER COUNT MIB ROUNDS for several processes.
"""

import multiprocessing
import os
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

import shmtensor as st
from tests.helpers.children import fork

folder, *numbers = sys.argv[1:]
Path(folder, "cgroup.procs").write_text(str(os.getpid()))
MIB = 1 << 20


def refused(mib):
    try:
        return st.full(mib * MIB, 7, np.uint8)
    except st.OutOfSharedMemory as error:
        assert f"memory cgroup {folder}" in str(error), error


def fill_alone():
    assert refused(200) is None
    kept = []
    while (tensor := refused(8)) is not None:
        kept.append(tensor)
    assert len(kept) >= 3, len(kept)
    assert all((tensor.numpy() == 7).all() for tensor in kept)
    full = len(kept)
    del kept[1:]
    st.gc()
    while (tensor := refused(8)) is not None:
        kept.append(tensor)
    assert len(kept) >= full - 1, (len(kept), full)
    print("fine")


def fill_together(count, mib, rounds):
    barrier = multiprocessing.get_context("fork").Barrier(count, timeout=30)

    def fill():
        st.empty(1)
        for _ in range(rounds):
            barrier.wait()
            kept = []
            with suppress(st.OutOfSharedMemory):
                while True:
                    kept.append(st.empty(mib * MIB, dtype="uint8"))
            barrier.wait()
            kept.clear()
            st.gc()  # or the pages remain

    workers = [fork(fill) for _ in range(count)]
    print({os.waitpid(pid, 0)[1] for pid in workers})


if numbers:
    fill_together(*map(int, numbers))
else:
    fill_alone()
