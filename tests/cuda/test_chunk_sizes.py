"""How many chunks, and so descriptors, device memory takes."""

from __future__ import annotations

import os
import resource
from typing import Any

import pytest

import shmtensor as st
from tests.cuda import workers

MIB = 1 << 20
LIMIT = 64  # descriptors
COUNT = 160  # tensors of 64 MiB


def use_much_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, hard))
    tensors = [st.empty(64 * MIB, "u1", device="cuda") for _ in range(COUNT)]
    tensors[-1][-1:] = 7
    pair = workers.Pair(receive_all)  # it has the same limit
    for tensor in tensors:
        pair.put(tensor)
    last, descriptors = pair.get()
    assert last == [7]
    assert descriptors < LIMIT
    pair.end()


def receive_all(inbox: Any, outbox: Any) -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == LIMIT
    tensors = [inbox.get() for _ in range(COUNT)]
    outbox.put((tensors[-1][-1:].tolist(), len(os.listdir("/proc/self/fd"))))
    inbox.get()


@pytest.mark.thorough
def test_much_memory_takes_few_descriptors(simulator) -> None:
    """Regression: each 64 MiB took one in each process; a limit of 1,024 was not enough for 80 GB."""
    simulator.run(
        f"from {__name__} import use_much_memory as case\nif __name__ == '__main__': case()",
        SHMTENSOR_SIM_LIMIT=str(COUNT * 64 * MIB),
    )


def allocate_all(size: int, count: int) -> None:
    kept = [st.empty(size, "u1", device="cuda") for _ in range(count)]
    with pytest.raises(st.OutOfSharedMemory, match="CUDA_ERROR_OUT_OF_MEMORY"):
        st.empty(size, "u1", device="cuda")
    del kept


@pytest.mark.parametrize(
    ("size", "count", "limit"),
    [
        (64 * MIB, 19, 19 * 64 * MIB),  # the next chunk would have 256 MiB, and there are 192
        (40 * MIB, 24, 24 * 40 * MIB),  # not one in each 64 MiB
        (3 * MIB, 22, 69 * MIB),
        (2 * MIB, 33, 66 * MIB),
    ],
)
def test_whole_memory_can_be_allocated(simulator, size, count, limit) -> None:
    code = f"from {__name__} import allocate_all as case; case({size}, {count})"
    simulator.run(code, SHMTENSOR_SIM_LIMIT=str(limit))
