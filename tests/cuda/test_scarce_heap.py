"""C++ allocations fail, one after the other: no object of the driver is lost."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import _core
from tests.cuda import device, workers
from tests.cuda.harness import Machine
from tests.helpers.scarce_heap import PLENTY, allocations, scarce_heap

MADE_AND_ENDED = [
    ("cuEventCreate", "cuEventDestroy_v2"),
    ("cuIpcOpenEventHandle", "cuEventDestroy_v2"),
    ("cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle"),
    ("cuMemAddressReserve", "cuMemAddressFree"),
    ("cuMemCreate", "cuMemRelease"),
    ("cuMemMap", "cuMemUnmap"),
]
MOST = 100  # allocations that fail


def balance() -> list[int]:
    """Return how many objects of each kind the driver has for this process."""
    made: dict[str, int] = {}
    for make, end in MADE_AND_ENDED:
        made[end] = made.get(end, 0) + device.calls(make)
    return [count - device.calls(end) for end, count in made.items()]


def fail_each(act: Callable[[], Any]) -> None:
    """Let each allocation of the call fail in turn, twice, until it succeeds."""
    leave = allocations()
    failed = 0
    for left in range(MOST // 2):
        balances = []
        for _ in range(2):  # the first may leave memory that the second uses
            leave(left)
            try:
                act()
                assert failed > 1
                return
            except MemoryError:
                failed += 1
            finally:
                leave(PLENTY)
            st.cuda.ipc_collect()
            gc.collect()
            balances.append(balance())
        assert balances[0] == balances[1], f"after {left} allocations"
    raise AssertionError


def order_streams() -> None:
    fail_each(lambda: _core.cuda_order_streams(0, 1, 2))


def allocate() -> None:
    """Regression: memory that was not mapped completely ended the process at its release."""
    fail_each(lambda: st.zeros(64 << 20, "u1", device="cuda"))


def send_often(inbox: Any, outbox: Any) -> None:
    array = device.Array(np.arange(2.0))
    tensor = st.asarray(array, copy=False)
    for _ in range(MOST):
        outbox.put(tensor)
    inbox.get()


def receive() -> None:
    pair = workers.Pair(send_often)
    pair.get()
    before = balance()
    fail_each(pair.get)
    gc.collect()
    assert balance() == before
    pair.end()


@pytest.mark.parametrize("program", [order_streams, allocate, receive])
def test_failing_allocations_leave_nothing_behind(simulator, program) -> None:
    simulator.run_main(__name__, program.__name__, **scarce_heap())


def test_event_is_destroyed_once_if_memory_is_short(simulator: Machine) -> None:
    """Regression: pybind11 destroyed an event twice if its table of objects could not grow.

    An error that could not be reported was a SystemError. This process cannot open its own event.
    """
    code = """
        from shmtensor import _core
        from shmtensor.errors import CudaError
        from tests.cuda.test_events import events
        from tests.helpers.scarce_heap import PLENTY, allocations

        leave = allocations()
        description = _core.CudaEvent(0).describe(1)
        before = events()
        failed = 0
        for call in (lambda: _core.CudaEvent(0), lambda: _core.CudaEvent(description)):
            for left in range(100):
                leave(left)
                try:
                    call()
                    break
                except MemoryError:
                    failed += 1
                except CudaError:
                    break
                finally:
                    leave(PLENTY)
                assert events() == before, left
        assert failed > 3, failed
    """
    simulator.run(code, **scarce_heap())
