"""CUDA graphs: what this library does during a capture must not invalidate it.

The rules that the simulator checks are those of the driver's documentation; `tests/cuda/sim/capture.cpp`.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers
from tests.cuda.device import Array, Shown
from tests.cuda.harness import case
from tests.cuda.segment import Part, Segment

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
BLOCKING, NON_BLOCKING = 0, 1


def make_stream(kind: int = NON_BLOCKING) -> int:
    stream = ctypes.c_void_p()
    device.check(device.library().cuStreamCreate(ctypes.byref(stream), kind))
    assert stream.value
    return stream.value


class Captured:
    """A capture, begun in the thread that creates the object."""

    def __init__(self, stream: int, mode: int = GLOBAL) -> None:
        self.stream = stream
        device.check(device.library().cuStreamBeginCapture_v2(ctypes.c_void_p(stream), mode))

    def end(self) -> int:
        graph = ctypes.c_void_p()
        return device.library().cuStreamEndCapture(ctypes.c_void_p(self.stream), ctypes.byref(graph))


@contextmanager
def capture(stream: int) -> Iterator[None]:
    """Capture the stream; fails if something in the block has invalidated the capture."""
    captured = Captured(stream)
    try:
        yield
    finally:
        code = captured.end()
    assert code == 0, f"the capture was invalidated: {code}"


@contextmanager
def cupy_uses(stream: int) -> Iterator[None]:
    """Stand in for CuPy, whose current stream is `stream`."""
    cuda = types.SimpleNamespace(
        runtime=types.SimpleNamespace(getDevice=lambda: 0),
        get_current_stream=lambda: types.SimpleNamespace(ptr=stream),
    )
    sys.modules["cupy"] = types.SimpleNamespace(cuda=cuda)  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["cupy"]


def blocks() -> int:
    stats: Any = st.stats()
    return stats["blocks"]


@case
def test_calls_do_not_invalidate_a_capture() -> None:
    """Regression: an event query, an import or an allocation during torch's captures ended them."""
    pair, stream = workers.Pair(workers.echo), make_stream()
    array, part = Array(np.arange(4.0)), Part(Segment(2), 0, np.arange(4.0))
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        captured = Captured(stream, mode)
        tensor = st.full(4, 3, "u1", device="cuda")
        assert tensor.clone().tolist() == [3, 3, 3, 3]
        pair.put(tensor)
        assert pair.get().tolist() == [4, 4, 4, 4]
        del tensor
        big = st.zeros((65 + mode) << 20, "u1", device="cuda")  # a new chunk
        del big
        st.cuda.ipc_collect()
        kept = [st.asarray(each, copy=False) for each in (array, part)]
        assert captured.end() == 0
        del kept
    pair.end()


@case
def test_events_of_other_processes_do_not_invalidate_a_capture() -> None:
    """Regression: like NCCL's watchdog (pytorch#104555), a receive queried events."""
    st.cuda.set_sync("event")
    pair, stream = workers.Pair(workers.relay), make_stream()
    tensor = st.zeros(2, "u1", device="cuda")
    tensor.data_ptr()
    pair.put(tensor)
    assert pair.get() is not None
    with capture(stream):
        for _ in range(3):
            pair.put(tensor)
            assert pair.get().shape == (2,)
        st.cuda.ipc_collect()
    pair.end()


@case
def test_capture_of_another_thread_is_not_invalidated() -> None:
    stream, pair = make_stream(), workers.Pair(workers.echo)
    begun, end, codes = threading.Event(), threading.Event(), []

    def work() -> None:
        captured = Captured(stream)
        begun.set()
        end.wait(60)
        codes.append(captured.end())

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    tensor = st.full(4, 3, "u1", device="cuda")
    pair.put(tensor)
    assert pair.get().tolist() == [4, 4, 4, 4]
    del tensor
    st.cuda.ipc_collect()
    end.set()
    thread.join(60)
    assert codes == [0]
    pair.end()


@case
def test_wait_for_the_device_is_refused_during_a_capture() -> None:
    """The driver would refuse it, too, and would invalidate the capture."""
    tensor = st.zeros(4, "u1", device="cuda")
    shown = Shown(tensor)
    pair = workers.Pair(workers.echo)
    for kind in (BLOCKING, NON_BLOCKING):
        stream = make_stream(kind)
        with cupy_uses(stream):
            with capture(stream):
                for use in (lambda: pair.put(tensor), tensor.tolist, st.cuda.synchronize):
                    with pytest.raises(st.CudaError, match="before or after the capture") as caught:
                        use()
                    assert caught.value.code == 900
            pair.put(tensor)
        assert pair.get().tolist() == [1, 1, 1, 1]
        tensor.fill_(0)
    assert shown.tensor is tensor
    pair.end()


@case
def test_release_during_a_capture_is_deferred() -> None:
    """Regression: the wait of a release invalidated the capture."""
    keep = st.zeros(1, "u1", device="cuda")
    first = blocks()
    for kind in (BLOCKING, NON_BLOCKING):
        stream = make_stream(kind)
        with cupy_uses(stream):
            with capture(stream):
                tensor = st.zeros(4, "u1", device="cuda")
                tensor.data_ptr()
                del tensor
                gc.collect()
                assert blocks() == first + 1, "it may be in use, so it stays allocated"
                st.cuda.ipc_collect()
                other = st.zeros(4, "u1", device="cuda")
                assert blocks() == first + 2
                del other
            st.cuda.ipc_collect()
        assert blocks() == first
    del keep


@case
def test_received_event_is_waited_for_during_a_capture_of_a_blocking_stream() -> None:
    """The driver refuses the default stream then; so the receive waits itself."""
    st.cuda.set_sync("event")
    pair, stream = workers.Pair(workers.relay), make_stream(BLOCKING)
    tensor = st.zeros(2, "u1", device="cuda")
    tensor.data_ptr()
    pair.put(tensor)
    with capture(stream):
        assert pair.get().shape == (2,)
        with pytest.raises(st.CudaError, match="before or after the capture"):
            pair.put(tensor)
        with pytest.raises(st.CudaError, match="before or after the capture"):
            st.cuda.Event().record(stream)
    pair.put(tensor)
    assert pair.get().shape == (2,)
    pair.end()
