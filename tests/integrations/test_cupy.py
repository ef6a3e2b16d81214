"""CuPy and tensors on the simulated GPU: kinds of arrays and memory, order of streams, captures."""

from __future__ import annotations

import ctypes
import os
import threading
import time

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device, workers

VIEWS = (
    lambda array: array,
    lambda array: array[1],
    lambda array: array[:, ::2],
    lambda array: array[..., ::-1],
    lambda array: array.T,
    lambda array: array[1, 2, 3],
)


def both_ways() -> None:
    import cupy

    for dtype in ("?", "i1", "u8", "f2", "f4", "f8", "c8", "c16"):
        values = (np.arange(24) % 5).astype(dtype).reshape(2, 3, 4)
        array, own = cupy.asarray(values), st.asarray(values, device="cuda")
        for part in VIEWS:
            expected, view = part(values), part(array)
            tensor = st.asarray(view, copy=False)
            assert (tensor.dtype, tensor.shape, tensor.strides) == (dtype, expected.shape, view.strides)
            assert tensor.data_ptr() == view.data.ptr
            assert np.array_equal(tensor.cpu().numpy(), expected)
            tensor = part(own)
            for view in (tensor.cupy(), cupy.from_dlpack(tensor)):
                assert (view.dtype, view.shape, view.strides) == (dtype, expected.shape, tensor.strides)
                assert view.data.ptr == tensor.data_ptr()
    assert st.asarray(cupy.empty((0, 3), "f4")).shape == (0, 3)
    assert st.empty((0, 3), "f4", device="cuda").cupy().shape == (0, 3)
    points = np.array([(1, 2.5), (3, 4.5)], [("x", "i4"), ("y", "f4")])
    tensor = st.asarray(cupy.asarray(points), copy=False)
    assert tensor.dtype == points.dtype
    assert tensor.cpu().numpy().tolist() == points.tolist()
    assert st.asarray(values).cupy().get().tolist() == values.tolist(), "a host tensor is copied"
    with cupy.cuda.Device(1):
        view = own.cupy()  # regression: it was a copy on CuPy's current device
        assert (view.device.id, view.data.ptr) == (0, own.data_ptr())


def test_kinds_of_arrays_are_shared_in_both_directions(run_main) -> None:
    run_main(both_ways)


def memory_life() -> None:
    """A view keeps the memory of a tensor, and a tensor that of an array without a pool."""
    import cupy

    cupy.cuda.set_allocator(None)
    array = cupy.asarray(np.arange(4 << 20, dtype="u1"))
    pointer = array.data.ptr
    tensor = st.asarray(array, copy=False)
    del array
    assert tensor[:3].tolist() == [0, 1, 2]
    assert tensor.data_ptr() == pointer
    before = device.used_bytes()
    del tensor
    device.wait_until(lambda: device.used_bytes() == before - (4 << 20), "CuPy to free the memory")

    keep = st.zeros(1, device="cuda")
    blocks = st.stats()["blocks"]
    for view in (cupy.asarray, cupy.from_dlpack):
        array = view(st.full(3, 7, "u1", device="cuda"))
        assert st.stats()["blocks"] == blocks + 1
        assert array.get().tolist() == [7, 7, 7]
        del array
        assert st.stats()["blocks"] == blocks
    del keep


def test_memory_lives_as_long_as_its_users(run_main) -> None:
    run_main(memory_life)


def pools() -> None:
    import cupy

    pool = cupy.cuda.MemoryAsyncPool()
    cupy.cuda.set_allocator(pool.malloc)
    array = cupy.asarray(np.arange(5.0))
    tensor = st.asarray(array)
    assert tensor.data_ptr() != array.data.ptr
    assert tensor.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"ndarray cannot be shared without a copy: .*stream-ordered pool"):
        st.asarray(array, copy=False)


def test_array_of_a_stream_ordered_pool_is_copied(run_main) -> None:
    run_main(pools)


def order() -> None:
    """The work of CuPy's stream is done before a tensor is read, here and in another process."""
    import cupy

    place = os.path.join(os.environ["SHMTENSOR_SIM_DIR"], "latch")
    pair = workers.Pair(workers.answer)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        array = cupy.zeros(3, "f8")
        pinned = cupy.cuda.alloc_pinned_memory(24)
        values = np.frombuffer(pinned, "f8", 3)
        for use in (lambda tensor: tensor.tolist(), lambda tensor: (pair.put(tensor), pair.get()[0][0])[1]):
            values += 1
            device.library().sim_latch(ctypes.c_void_p(stream.ptr), place.encode())
            array.set(values)
            threading.Timer(0.2, lambda: open(place, "w").close()).start()
            started = time.monotonic()
            assert use(st.asarray(array, copy=False)) == values.tolist()
            assert time.monotonic() - started > 0.1, "it waits for the stream"
            os.unlink(place)
    pair.end()


def test_work_of_a_stream_is_waited_for(run_main) -> None:
    run_main(order)


def graph_capture() -> None:
    import cupy

    tensor = st.zeros(4, "u1", device="cuda")
    view = tensor.cupy()
    for non_blocking in (False, True):
        stream = cupy.cuda.Stream(non_blocking=non_blocking)
        with stream:
            stream.begin_capture()
            with pytest.raises(st.CudaError, match="before or after the capture"):
                tensor.tolist()
            other = st.full(2, 3, "u1", device="cuda")
            assert stream.is_capturing()
            with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="NOT_SUPPORTED"):
                stream.end_capture()  # the capture is valid; a graph cannot be made of it here
        assert tensor.tolist() == [0, 0, 0, 0]
        assert other.tolist() == [3, 3]
    assert view.get().tolist() == [0, 0, 0, 0]


def test_captures_of_streams_are_respected(run_main) -> None:
    run_main(graph_capture)
