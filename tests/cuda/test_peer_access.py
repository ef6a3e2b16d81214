"""Access of other GPUs to the memory of one, which is given to those that need it; on the simulator."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers

VALUES = np.arange(6.0)


def use(number: int) -> ctypes.c_void_p:
    """Return the primary context of a GPU, which this process then uses."""
    context = ctypes.c_void_p()
    device.check(device.library().cuDevicePrimaryCtxRetain(ctypes.byref(context), number))
    return context


def read_on(number: int, pointer: int) -> int:
    """Return the driver's answer to a copy to the host that the GPU executes."""
    driver, content = device.library(), ctypes.create_string_buffer(8)
    device.check(driver.cuCtxPushCurrent_v2(use(number)))
    code = driver.cuMemcpyDtoHAsync_v2(content, ctypes.c_uint64(pointer), ctypes.c_size_t(8), None)
    device.check(driver.cuStreamSynchronize(None))
    device.check(driver.cuCtxPopCurrent_v2(None))
    return code


def requests() -> int:
    return device.calls("cuMemSetAccess")


def map_and_copy() -> None:
    first, second = st.asarray(VALUES, device="cuda:0"), st.zeros(6, device="cuda:1")
    assert requests() == 2, "each mapping is for its own GPU"
    for _ in range(3):
        second.copy_(first)
        assert second.tolist() == VALUES.tolist()
    assert requests() == 3, "the target's GPU was given access, once"
    first.copy_(second[::-1])
    assert first.tolist() == VALUES[::-1].tolist()
    assert requests() == 4


def test_copy_gives_access_to_the_gpu_that_executes_it(simulator) -> None:
    """Regression: each mapping was made for all eight GPUs, in one call that any of them could fail."""
    simulator.run(f"from {__name__} import map_and_copy as case; case()", SHMTENSOR_SIM_DEVICES="8")


def copy_without_access(asked: bool) -> None:
    first, second = st.asarray(VALUES, device="cuda:0"), st.zeros(6, device="cuda:1")
    if asked:
        device.library().sim_fault(b"cuMemSetAccess", 0, 217)
    for _ in range(3):
        second.zero_()
        second.copy_(first)
        assert second.tolist() == VALUES.tolist()
    assert requests() == 2 + asked, "a refusal is final"


@pytest.mark.parametrize("asked", [False, True])
def test_copy_goes_through_host_if_peer_is_refused(simulator, asked) -> None:
    code = f"from {__name__} import copy_without_access as case; case({asked})"
    simulator.run(code, SHMTENSOR_SIM_P2P=str(int(asked)))


def show_address() -> None:
    tensor, other = st.asarray(VALUES, device="cuda:0"), st.zeros(6, device="cuda:1")
    pointer = tensor.data_ptr()
    assert read_on(1, pointer) == 0
    assert read_on(2, pointer) == 1, "the process did not use that GPU when it took the address"
    assert requests() == 3
    tensor.data_ptr()
    assert read_on(2, pointer) == 0
    assert other.__cuda_array_interface__["data"][0]
    assert read_on(0, other.data_ptr()) == 0
    pair = workers.Pair(receive_and_show)
    pair.put(tensor)
    assert pair.get() == [0, 0, 0]
    pair.end()


def receive_and_show(inbox: Any, outbox: Any) -> None:
    use(1)
    use(2)
    tensor = inbox.get()
    pointer = tensor.data_ptr()
    outbox.put([read_on(number, pointer) for number in range(3)])
    inbox.get()


def test_address_is_valid_on_gpus_that_the_process_uses(simulator) -> None:
    simulator.run(
        f"from {__name__} import show_address as case\nif __name__ == '__main__': case()",
        SHMTENSOR_SIM_DEVICES="3",
    )
