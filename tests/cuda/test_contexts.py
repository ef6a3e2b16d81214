"""Memory and work of a context that is not the primary one, as `cuCtxCreate` and PyCUDA make it."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers
from tests.cuda.device import Array
from tests.cuda.harness import case

NON_BLOCKING = 1


def new_context() -> ctypes.c_void_p:
    """Create a context of device 0 that is not current in this thread."""
    context = ctypes.c_void_p()
    device.check(device.library().cuCtxCreate_v2(ctypes.byref(context), 0, 0))
    device.check(device.library().cuCtxPopCurrent_v2(None))
    return context


@contextmanager
def current(context: ctypes.c_void_p) -> Iterator[None]:
    device.check(device.library().cuCtxPushCurrent_v2(context))
    try:
        yield
    finally:
        device.check(device.library().cuCtxPopCurrent_v2(None))


class Work:
    """A kernel in the default stream of the current context that sets bytes; the test ends it."""

    def __init__(self, pointer: int, size: int) -> None:
        self.latch = device.Latch(f"latch{id(self)}").close()
        device.check(
            device.library().cuMemsetD8Async(ctypes.c_uint64(pointer), 7, ctypes.c_size_t(size), None)
        )

    def check_waits(self, act: Callable[[], Any]) -> Any:
        """Return what the call returns, which must wait for the work."""
        threading.Timer(0.3, self.latch.open).start()
        result = act()
        assert self.latch.is_open(), "the call has not waited for the work"
        return result


@case
def test_array_of_other_context_is_shared_and_copied() -> None:
    other = new_context()
    with current(other):
        array = Array(np.arange(4.0), margin=512)
    tensor = st.asarray(array, copy=False)
    assert tensor.tolist() == [0, 1, 2, 3]
    assert tensor[::2].tolist() == [0, 2]
    pair = workers.Pair(workers.echo)
    pair.put(tensor)
    assert pair.get().storage() is tensor.storage()
    pair.end()
    with current(other):
        assert array.read().tolist() == [1, 2, 3, 4]
    tensor.fill_(5)
    assert st.asarray(array, copy=True).tolist() == [5] * 4
    assert tensor.clone().tolist() == [5] * 4
    tensor.copy_(st.asarray(np.arange(4.0), device="cuda"))
    assert tensor.tolist() == [0, 1, 2, 3]
    of_primary = st.asarray(Array(np.arange(4.0) + 4), copy=False)
    tensor[:2].copy_(of_primary[:2])
    of_primary.copy_(tensor)
    assert of_primary.tolist() == tensor.tolist() == [4, 5, 2, 3]


@pytest.mark.thorough
@case
def test_copy_and_send_wait_for_work_of_the_memorys_context() -> None:
    other = new_context()
    for stream in (None, 1):
        with current(other):
            array = Array(np.zeros(2, "u1"), stream=stream)
        for take in (lambda array: st.asarray(array, copy=True), st.asarray):
            with current(other):
                work = Work(array.pointer, 2)
            assert work.check_waits(lambda take=take, array=array: take(array).tolist()) == [7, 7]
            with current(other):
                device.write(array.pointer, b"\0\0")
    tensor = st.asarray(array, copy=False)
    pair = workers.Pair(workers.answer)
    with current(other):
        work = Work(array.pointer, 2)
    work.check_waits(lambda: pair.put(tensor))
    assert pair.get() == [([7, 7], "cuda:0", False)]
    with current(other):
        device.write(array.pointer, b"\0\0")
        work = Work(array.pointer, 2)
    assert work.check_waits(tensor.tolist) == [7, 7]
    pair.end()


@pytest.mark.thorough
@case
def test_send_and_release_wait_for_work_of_the_current_context() -> None:
    tensors = [st.zeros(2, "u1", device="cuda")]
    pointer = tensors[0].data_ptr()
    pair = workers.Pair(workers.answer)
    with current(new_context()):
        work = Work(pointer, 2)
        work.check_waits(lambda: pair.put(tensors[0]))
        assert pair.get() == [([7, 7], "cuda:0", False)]
        work = Work(pointer, 2)
        work.check_waits(tensors.clear)
    pair.end()


@pytest.mark.thorough
@case
def test_reader_waits_for_work_of_the_memorys_context() -> None:
    st.cuda.set_sync("event")
    other = new_context()
    with current(other):
        array = Array(np.zeros(2, "u1"))
    tensor = st.asarray(array, copy=False)
    pair = workers.Pair(workers.answer)
    pair.put(st.zeros(1, device="cuda"))  # the child then answers quickly
    assert pair.get()
    with current(other):
        work = Work(array.pointer, 2)
    pair.put(tensor)
    assert not pair.outbox._reader.poll(0.3), "the reader has read too early"
    work.latch.open()
    assert pair.get() == [([7, 7], "cuda:0", False)]
    pair.end()


@case
def test_export_orders_default_stream_after_array_of_other_context() -> None:
    st.cuda.set_sync("event")
    other = new_context()
    with current(other):
        array = Array(np.zeros(2, "u1"), stream=1)
        work = Work(array.pointer, 2)
    tensor = st.asarray(array, copy=False)
    assert device.library().cuStreamQuery(ctypes.c_void_p(1)) == 600, "the default stream waits"
    work.latch.open()
    assert tensor.tolist() == [7, 7]


@case
def test_capture_in_other_context_stays_valid() -> None:
    other, stream, graph = new_context(), ctypes.c_void_p(), ctypes.c_void_p()
    with current(other):
        array = Array([1.0])
        device.check(device.library().cuStreamCreate(ctypes.byref(stream), 0))
    tensors = [st.asarray(array, copy=False)]
    with current(other):
        device.check(device.library().cuStreamBeginCapture_v2(stream, 0))
    with pytest.raises(st.CudaError, match="CAPTURE"):
        tensors[0].tolist()
    tensors.clear()
    del array
    with current(other):
        device.check(device.library().cuStreamEndCapture(stream, ctypes.byref(graph)))
    assert Array.alive == 1, "the release is deferred"
    st.cuda.ipc_collect()
    device.wait_until(lambda: Array.alive == 0, "the owner")


@case
def test_event_is_not_recorded_in_stream_of_other_context() -> None:
    stream = ctypes.c_void_p()
    with current(new_context()):
        device.check(device.library().cuStreamCreate(ctypes.byref(stream), NON_BLOCKING))
    with pytest.raises(st.CudaError, match="context that is not the device's primary one") as caught:
        st.cuda.Event().record(stream.value)
    assert caught.value.code == 400


class Bare(Array):
    """An array whose destructor makes no context current, as in libraries that leave this to the program."""

    freed: list[tuple[int | None, int]] = []  # noqa: RUF012  # (current context, answer)

    def __del__(self) -> None:
        Bare.freed.append((current_context(), device.loaded().cuMemFree_v2(ctypes.c_uint64(self.base))))


def current_context() -> int | None:
    context = ctypes.c_void_p()
    device.check(device.loaded().cuCtxGetCurrent(ctypes.byref(context)))
    return context.value


@case
def test_owner_is_released_in_the_context_of_its_memory() -> None:
    device.library()
    primary, other = ctypes.c_void_p(current_context()), new_context()
    for context in (primary, other):
        with current(context):
            tensor = st.asarray(Bare([1.0]), copy=False)
        del tensor
        device.wait_until(lambda: len(Bare.freed) > 0, "the owner")
        assert Bare.freed.pop() == (context.value, 0)


@case
def test_destroyed_context_is_not_waited_for() -> None:
    tensor = st.zeros(2, device="cuda")
    tensor.data_ptr()
    other = new_context()
    with current(other):
        array = Array([1.0])
    exported = st.asarray(array, copy=False)
    array.owner = None  # its memory is freed with the context
    device.check(device.library().cuCtxDestroy_v2(other))
    st.cuda.synchronize()
    del tensor, exported, array
    gc.collect()
    device.wait_until(lambda: Array.alive == 0, "the owner")
