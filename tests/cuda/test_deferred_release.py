"""Memory that is released while the device may still work on it."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device
from tests.cuda.harness import simulated_case
from tests.cuda.workers import Pair

WAIT = b"cuCtxSynchronize"
CAPTURED = 900  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED


def blocks() -> int:
    stats: Any = st.stats()
    return stats["blocks"]


def release_while_waits_fail(code: int = CAPTURED) -> int:
    """Release a tensor in use by another library while the driver refuses to wait; return its address."""
    tensor = st.zeros(4, "u1", device="cuda")
    address = tensor.data_ptr()
    driver = device.library()
    device.Latch().close()
    device.check(driver.cuMemsetD8Async(ctypes.c_uint64(address), 7, ctypes.c_size_t(4), None))
    driver.sim_fault(WAIT, 0, code)
    del tensor
    gc.collect()
    return address


def open_latch() -> None:
    device.library().sim_no_faults()
    device.Latch().open()


def address_of(tensor: st.Tensor) -> int:
    """Return the address without recording that another library may use it."""
    return tensor._layout().__array_interface__["data"][0]


def test_block_is_kept_if_device_wait_fails(simulator) -> None:
    """Regression: the driver cannot wait while a stream is captured; the block was reused under a kernel."""
    simulator.run("""
        import os
        import shmtensor as st
        from tests.cuda import device
        from tests.cuda.test_deferred_release import *
        before = st.zeros(1, "u1", device="cuda")
        with_one = blocks()
        address = release_while_waits_fail()
        assert blocks() == with_one + 1
        other = st.full(4, 1, "u1", device="cuda")
        assert address_of(other) != address
        assert blocks() == with_one + 2
        open_latch()
        again = st.full(4, 2, "u1", device="cuda")
        assert again.tolist() == [2] * 4, "no work writes there any more"
        assert other.tolist() == [1] * 4
        del again
        assert blocks() == with_one + 1, "the next allocation has released it"
    """)


def test_kept_block_is_released_by_gc_or_next_release(simulator) -> None:
    simulator.run("""
        import gc
        import shmtensor as st
        from tests.cuda.test_deferred_release import *
        keep = [st.zeros(1, "u1", device="cuda") for _ in range(3)]
        keep[0].data_ptr()
        first = blocks()
        for release in (st.cuda.ipc_collect, st.gc, lambda: keep.pop(0)):
            release_while_waits_fail()
            assert blocks() == first + 1
            release()
            assert blocks() == first + 1, "still refused"
            if not keep[2:]:
                keep.append(st.zeros(1, "u1", device="cuda"))
            open_latch()
            release()
    """)


def test_kept_block_is_released_at_process_exit(simulator) -> None:
    """The driver cannot be called at exit; the memory is freed with the process."""
    simulator.run("""
        import os, subprocess, sys
        import shmtensor as st
        from tests.cuda import device
        from tests.cuda.test_deferred_release import blocks
        mine = st.zeros(1, "u1")
        first = blocks()
        code = "from tests.cuda.test_deferred_release import *; release_while_waits_fail()"
        done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert not done.stderr, done.stderr
        device.wait_until(lambda: blocks() == first, "the child's blocks")
    """)


@pytest.mark.parametrize("code", [4, 700, 702, 709, 710, 714, 719])
def test_block_is_released_after_driver_shutdown(simulator, code: int) -> None:
    """After such an error, no work can write any more."""
    simulator.run(f"""
        import shmtensor as st
        from tests.cuda.test_deferred_release import *
        before = st.zeros(1, "u1", device="cuda")
        first = blocks()
        release_while_waits_fail({code})
        assert blocks() == first
        open_latch()
    """)


def test_other_driver_error_is_reported_and_block_kept(simulator) -> None:
    from tests.helpers.children import run_python

    code = """
        import shmtensor as st
        from tests.cuda.test_deferred_release import *
        before = st.zeros(1, "u1", device="cuda")
        first = blocks()
        release_while_waits_fail(999)
        assert blocks() == first + 1
        st.cuda.ipc_collect()
        open_latch()
        st.cuda.ipc_collect()
        assert blocks() == first
    """
    done = run_python(code, timeout=110, env=simulator.env)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("shmtensor: cannot wait for cuda:0") == 1, done.stderr


def release_on_request(inbox: Any, outbox: Any) -> None:
    """Release the tensor while the driver refuses to wait, report that, and later free it."""
    tensor = inbox.get()
    tensor.data_ptr()
    driver = device.library()
    driver.sim_fault(WAIT, 0, CAPTURED)
    del tensor
    gc.collect()
    outbox.put("dropped")
    inbox.get()
    driver.sim_no_faults()
    st.cuda.ipc_collect()
    outbox.put("gone")
    inbox.get()


@simulated_case("needs faults that the simulator injects")
def test_user_memory_is_kept_until_reader_can_wait() -> None:
    array = device.Array(np.arange(4.0))
    pair = Pair(release_on_request)
    pair.put(st.asarray(array))
    assert pair.get() == "dropped"
    del array
    gc.collect()
    st.cuda.ipc_collect()
    assert device.Array.alive == 1
    pair.put("go on")
    assert pair.get() == "gone"
    device.wait_until(lambda: device.Array.alive == 0, "the owner")
    pair.end()
