"""PyCUDA's own stack of contexts in each thread, on the simulated driver."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import shmtensor as st
from tests.cuda import device
from tests.integrations.cuda_clients import Child
from tests.integrations.cuda_clients.pycuda import Pycuda

VALUES = np.arange(3 << 20, dtype="u1")  # has an allocation of its own


def in_a_thread(function: Callable[[], Any]) -> Any:
    """Return what the function returns in a thread that has ended."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join(60)
    return results[0]


def frees() -> int:
    return device.calls("cuMemFree_v2")


def after_the_thread_has_ended() -> None:
    client = Pycuda()

    def share() -> Any:
        context = client.driver.Device(0).make_context()
        try:
            return st.asarray(client.make(VALUES), copy=False)
        finally:
            context.pop()

    tensor, before = in_a_thread(share), frees()
    child = Child("pycuda")
    same, values = child.ask("double", tensor, "cai")
    assert same
    assert np.array_equal(values, VALUES)
    assert np.array_equal(tensor.cpu().numpy(), VALUES * 2)
    child.kill()
    del tensor
    gc.collect()
    device.wait_until(lambda: frees() == before + 1, "the array")


def test_array_is_freed_after_the_end_of_its_thread_and_reader(run_main) -> None:
    run_main(after_the_thread_has_ended)


def of_detached_context() -> None:
    client = Pycuda()
    context = client.driver.Device(0).make_context()
    tensor = st.asarray(client.make(VALUES), copy=False)
    context.detach()
    before = frees()
    del tensor
    st.cuda.ipc_collect()
    other = st.asarray(client.make(VALUES), copy=False)
    del other
    device.wait_until(lambda: frees() == before + 1, "the other array")


def test_array_of_detached_context_is_released_silently(run_main) -> None:
    run_main(of_detached_context)
