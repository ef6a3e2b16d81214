"""Shared host memory that the driver has pinned: what it is, when it is released, and who else has it.

`torch_batches` has the programs of its users, torch's data loaders.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor._core as _core
from tests.cuda import device, workers
from tests.cuda.harness import case, simulated_case
from tests.cuda.test_graph_captures import blocks, capture, cupy_uses, make_stream

SIZE = 3 << 20


def pin(tensor: st.Tensor) -> int:
    """Return the address of a tensor's bytes in pinned memory."""
    device.library()
    return _core.cuda_pin(tensor.storage())


def cannot_pin(tensor: st.Tensor) -> bool:
    """Return True if the process cannot pin memory."""
    return _core.cuda_pin(tensor.storage()) == 0


def bytes_at(address: int, size: int = SIZE) -> Any:
    return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(address))


class OnDevice:
    """Memory of the device, to which pinned memory is copied in a stream."""

    def __init__(self, stream: int | None = None) -> None:
        self.pointer = ctypes.c_uint64()
        self.stream = ctypes.c_void_p(stream)
        device.check(device.library().cuMemAlloc_v2(ctypes.byref(self.pointer), ctypes.c_size_t(SIZE)))

    def copy(self, address: int) -> None:
        size, source = ctypes.c_size_t(SIZE), ctypes.c_void_p(address)
        device.check(device.library().cuMemcpyHtoDAsync_v2(self.pointer, source, size, self.stream))

    def values(self) -> list[int]:
        return np.unique(np.frombuffer(device.read(self.pointer.value, SIZE), "u1")).tolist()


@case
def test_pinned_bytes_are_those_of_the_tensor() -> None:
    tensor = st.full(SIZE, 1, "u1")
    address = pin(tensor)
    assert address not in {0, tensor.data_ptr()}
    assert pin(tensor) == address
    bytes_at(address)[5] = 2
    assert tensor[5] == 2
    tensor[:] = 3
    target = OnDevice()
    target.copy(address)
    assert target.values() == [3]


@case
def test_block_is_kept_until_all_streams_have_read_it() -> None:
    """Its memory must not change while a copy may be reading it."""
    stream = make_stream()  # does not wait for the default stream, nor that for it
    target, latch = OnDevice(stream), device.Latch()
    tensor = st.full(SIZE, 1, "u1")
    address, before = pin(tensor), blocks()
    latch.close()
    event = ctypes.c_void_p()
    device.check(device.library().cuEventCreate(ctypes.byref(event), 2))
    device.check(device.library().cuEventRecord(event, None))
    device.check(device.library().cuStreamWaitEvent(target.stream, event, 0))
    target.copy(address)
    del tensor
    st.gc()
    assert blocks() == before
    others = [st.full(SIZE, 2, "u1") for _ in range(3)]
    latch.open()
    device.check(device.library().cuCtxSynchronize())
    assert target.values() == [1]
    del others
    st.gc()
    assert blocks() == before - 1


def copy_to_second_device() -> None:
    """Copy pinned memory to a device that is not the first one, whose stream a latch delays."""
    tensor = st.full(SIZE, 1, "u1")
    address, before = pin(tensor), blocks()
    context, driver = ctypes.c_void_p(), device.library()
    device.check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1))
    device.check(driver.cuCtxPushCurrent_v2(context))
    latch, target = device.Latch().close(), OnDevice()
    target.copy(address)
    del tensor
    st.gc()
    assert blocks() == before
    latch.open()
    device.check(driver.cuCtxSynchronize())
    st.gc()
    assert blocks() == before - 1


def test_block_is_kept_until_all_devices_have_read_it(simulator) -> None:
    simulator.run_main("tests.cuda.test_pinned_memory", "copy_to_second_device", SHMTENSOR_SIM_DEVICES="2")


@simulated_case("counts calls")
def test_many_releases_at_once_record_few_events() -> None:
    tensors = [st.full(1000, 1, "u1") for _ in range(100)]
    for tensor in tensors:
        assert pin(tensor)
    assert device.calls("cuMemHostRegister_v2") == 1
    before = device.calls("cuCtxRecordEvent")
    del tensor, tensors[:]
    assert 1 <= device.calls("cuCtxRecordEvent") - before < 50
    st.gc()
    assert blocks() == 0


@case
def test_release_during_a_capture_is_deferred() -> None:
    tensor, stream = st.full(SIZE, 1, "u1"), make_stream()
    assert pin(tensor)
    before = blocks()
    with capture(stream), cupy_uses(stream):
        del tensor
        st.gc()
        assert blocks() == before
        again = st.full(SIZE, 2, "u1")
        assert pin(again), "to pin does not invalidate a capture"
    st.gc()
    assert blocks() == before


@case
def test_discarded_pages_are_pinned_again() -> None:
    """The driver would go on using the old pages."""
    target, address = OnDevice(), 0
    for value in (1, 2, 3):
        tensor = st.full(SIZE, value, "u1")
        assert tensor.data_ptr() == (address or tensor.data_ptr())
        address = tensor.data_ptr()
        target.copy(pin(tensor))
        assert target.values() == [value]
        del tensor
        st.gc()
        stats: Any = st.stats()
        assert stats["bytes_reserved"] < SIZE
    if device.simulated:
        assert device.calls("cuMemHostRegister_v2") == 3
        assert device.calls("cuMemHostUnregister") == 2


def send_and_end(inbox: Any, outbox: Any) -> None:
    outbox.put([st.full(SIZE, 7, "u1"), *(st.full(100, 8, "u1") for _ in range(1000))])
    inbox.get()


@case
def test_memory_of_a_dead_process_stays_pinned_but_no_other_is_pinned() -> None:
    """The manager discards the pages around its blocks, which a registration would make again."""
    pair = workers.Pair(send_and_end)
    pinned, *others = pair.get()
    address = pin(pinned)
    assert address
    pair.end()

    def is_noticed() -> bool:
        time.sleep(0.02)
        return pin(others.pop()) == 0  # each one once: what is pinned stays so

    device.wait_until(is_noticed, "the manager's notice")
    assert pin(pinned) == address
    assert bytes_at(address)[-1] == 7
    others.clear()
    del pinned, pair
    st.gc()
    assert blocks() == 0
    if device.simulated:
        assert device.calls("cuMemHostUnregister") == device.calls("cuMemHostRegister_v2"), "it is unmapped"


def pin_and_wait(inbox: Any, outbox: Any) -> None:
    """Have a copy under way that a latch delays."""
    tensor = inbox.get()
    target = OnDevice()
    device.Latch().close()
    target.copy(pin(tensor))
    outbox.put(os.getpid())
    inbox.get()


@case
def test_killed_process_keeps_nothing() -> None:
    pair = workers.Pair(pin_and_wait)
    tensor = st.full(SIZE, 1, "u1")
    pair.put(tensor)
    pid = pair.get()
    before = blocks()
    del tensor
    st.gc()
    assert blocks() == before
    os.kill(pid, signal.SIGKILL)
    device.Latch().open()
    device.wait_until(lambda: st.gc() is not None and blocks() == before - 1, "the killed process's block")
    pair.process.join(60)


@case
def test_forked_child_calls_no_driver() -> None:
    tensor = st.full(SIZE, 1, "u1")
    address = pin(tensor)
    child = os.fork()
    if child == 0:
        bytes_at(address)[0] = 9
        refused = cannot_pin(st.full(SIZE, 2, "u1"))
        del tensor
        st.gc()
        os._exit(int(not refused))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert tensor[0] == 9
    assert pin(tensor) == address


@case
def test_what_is_not_shared_and_writable_is_not_pinned() -> None:
    tensor = st.full(SIZE, 1, "u1")
    assert cannot_pin(tensor), "the process uses no device"
    device.library()
    assert pin(tensor)
    assert pin(st.from_numpy(np.ones(SIZE, "u1"))) == 0
    assert pin(st.zeros(SIZE, "u1", device="cuda")) == 0
    with pytest.raises(TypeError, match="storage"):
        _core.cuda_pin(tensor)  # type: ignore[arg-type]


@simulated_case("injects a fault")
def test_refusal_of_the_driver_leaves_the_tensor_as_it_was() -> None:
    tensor = st.full(SIZE, 1, "u1")
    device.library().sim_fault(b"cuMemHostRegister_v2", 0, 2)
    assert pin(tensor) == 0
    device.library().sim_no_faults()
    assert pin(tensor)
    device.library().sim_fault(b"cuCtxRecordEvent", 0, 999)
    before = blocks()
    del tensor
    st.gc()
    assert blocks() == before
    device.library().sim_no_faults()
    st.gc()
    assert blocks() == before - 1
