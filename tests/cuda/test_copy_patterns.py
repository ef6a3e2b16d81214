"""Copies between views of any shape and strides are correct, also where they overlap, and need few calls."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.cuda import device
from tests.cuda.device import Shown
from tests.cuda.harness import case

COPIES = (
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpy2DAsync_v2",
)


def count(action: Any) -> int:
    """Return the number of copies requested from the driver."""
    before = sum(map(device.calls, COPIES))
    action()
    return sum(map(device.calls, COPIES)) - before


def assign(target: Any, source: Any) -> None:
    target[...] = source


OVERLAPPING = (
    lambda a: (a.reshape(-1)[1:], a.reshape(-1)[:-1]),
    lambda a: (a.reshape(-1)[:-1], a.reshape(-1)[1:]),
    lambda a: (a, a[::-1, ::-1]),
    lambda a: (a.reshape(-1)[2::2], a.reshape(-1)[:-2:2]),
    lambda a: (a, a.T),
    lambda a: (a.T[1:], a[:-1]),
    lambda a: (a, a),
)


@case
def test_overlapping_copy_matches_numpy() -> None:
    """Regression: the driver does not define overlapping copies; bytes were overwritten before the read."""
    for size in (3, 10, 40):
        for pick in OVERLAPPING:
            for show in (lambda view: view, Shown):
                expected = np.arange(size * size).reshape(size, size)
                tensor = st.asarray(expected, device="cuda")
                assign(*pick(expected))
                target, source = pick(tensor)
                target[...] = show(source)
                assert tensor.tolist() == expected.tolist()
    empty = st.asarray(np.zeros((5, 4)), device="cuda")[:, 2:2]
    empty[...] = empty[::-1]


@case
def test_two_mappings_of_one_block_overlap() -> None:
    """A read-only mapping has another address."""
    expected = np.arange(100)
    tensor = st.asarray(expected, device="cuda")
    messages = [ForkingPickler.dumps(tensor.as_readonly()), ForkingPickler.dumps(tensor)]
    del tensor
    readonly, tensor = map(pickle.loads, messages)
    assert readonly.data_ptr() != tensor.data_ptr()
    tensor[1:] = readonly[:-1]
    expected[1:] = expected[:-1].copy()
    assert tensor.tolist() == expected.tolist()


@case
def test_strided_view_is_copied_in_few_driver_calls() -> None:
    """Regression: a transposed array took a driver call for each of its 10,000 elements."""
    array = np.arange(10_000, dtype="f4").reshape(100, 100)
    tensor = st.asarray(array, device="cuda")
    other = st.zeros((100, 100), "f4", device="cuda")
    host = np.ascontiguousarray(array.T)
    for most, action in (
        (1, tensor.T.cpu),
        (1, tensor[:, 0].tolist),
        (1, tensor[::-1, 3].tolist),
        (1, tensor[10:20, 10:20].cpu),
        (1, tensor[::3, ::-2].cpu),
        (1, lambda: assign(other.T, array)),
        (1, lambda: assign(other[:, 5], array[0])),
        (1, lambda: assign(other[::-1, ::-1], array)),
        (50, lambda: assign(other[::2, ::2], array[:50, :50])),
        (1, lambda: assign(other[10:20, 10:20], tensor[30:40, 50:60])),
        (2, lambda: assign(other, tensor.T)),
        (2, lambda: assign(other, tensor[::-1])),
        (1, lambda: assign(other[:, 7], tensor[7])),
    ):
        if device.simulated:
            assert count(action) <= most
        else:
            action()
    other.copy_(tensor.T)
    assert np.array_equal(other.cpu().numpy(), host)


def some_view(array: Any, random: np.random.Generator) -> Any:
    """Generate a function that takes a view of an array or tensor of that shape."""
    axes = random.permutation(array.ndim).tolist()
    parts = []
    for size in array.shape:
        step = int(random.choice([-3, -2, -1, 1, 1, 1, 2, 5]))
        first, last = sorted(random.integers(0, size + 1, 2).tolist())
        parts.append(slice(first, last) if step == 1 else slice(None, None, step))
        if random.random() < 0.1:
            parts[-1] = slice(0, 1)
    key = tuple(parts)
    return lambda x: x[key].transpose(*axes)


@pytest.mark.thorough
@case
def test_generated_view_copies_match_numpy() -> None:
    random = np.random.default_rng(12)
    for turn in range(150):
        shape = tuple(random.integers(1, 9, random.integers(0, 5)).tolist())
        array = random.integers(0, 1 << 60, shape).astype(random.choice(["u1", "i2", "f8"]))
        tensor = st.asarray(array, device="cuda")
        look = some_view(array, random)
        view = look(array)
        assert look(tensor).tolist() == view.tolist(), f"to the host, turn {turn}"
        assert look(tensor).clone().tolist() == view.tolist(), f"on the device, turn {turn}"
        expected = array[..., None].repeat(2, -1)
        written = st.asarray(expected, device="cuda")
        put = some_view(expected, random)
        value = random.integers(0, 100, put(expected).shape).astype(array.dtype)
        put(written)[...] = value
        put(expected)[...] = value
        assert written.tolist() == expected.tolist(), f"from the host, turn {turn}"
        value = np.asfortranarray(random.integers(0, 100, put(expected).shape).astype(array.dtype))
        put(written)[...] = st.asarray(np.ascontiguousarray(value.T), device="cuda").T
        put(expected)[...] = value
        assert written.tolist() == expected.tolist(), f"with gaps on the device, turn {turn}"


def test_rows_beyond_pitch_limit_are_copied_one_by_one(simulator) -> None:
    """Pitches above CU_DEVICE_ATTRIBUTE_MAX_PITCH, and others that cuMemAllocPitch would not choose."""
    simulator.run(
        """
        import numpy as np, shmtensor as st
        from tests.cuda.test_copy_patterns import assign
        array = np.arange(10_000).reshape(100, 100)
        tensor = st.asarray(array, device="cuda")
        assert tensor[:, 3].tolist() == array[:, 3].tolist()
        tensor[:, 5] = array[0]
        assign(array[:, 5], array[0].copy())
        tensor[:, 6] = tensor[7]
        assign(array[:, 6], array[7].copy())
        assert tensor.tolist() == array.tolist()
        """,
        SHMTENSOR_SIM_PITCH="100",
    )


def test_copy_source_lives_until_copy_completes(simulator) -> None:
    """Regression: the driver may read host memory after the call; the buffer of a fill had been freed."""
    simulator.run(
        """
        import numpy as np, shmtensor as st
        for size in (3, 100_000):
            tensor = st.full((size,), 258, "i4", device="cuda")
            assert (tensor.cpu().numpy() == 258).all()
            tensor[::2] = np.arange(len(tensor[::2]))
            assert (tensor.cpu().numpy()[::2] == np.arange(len(tensor[::2]))).all()
        """,
        SHMTENSOR_SIM_LATE="20000",
    )


def test_failed_copy_waits_for_submitted_work(simulator) -> None:
    """Regression: work queued before the failed call still used the caller's memory."""
    simulator.run("""
        import numpy as np, shmtensor as st
        from tests.cuda import device
        driver = device.library()
        tensor = st.zeros((100_000,), "i4", device="cuda")
        grid = st.zeros((4, 4, 4), "i4", device="cuda")
        for failing, action in (
            (b"cuMemcpyDtoDAsync_v2", lambda: tensor.fill_(258)),
            (b"cuMemcpy2DAsync_v2", lambda: grid[:, ::2, ::2].copy_(np.ones((4, 2, 2)))),
        ):
            driver.sim_fault(failing, 2 if b"2D" in failing else 1, 2)
            waits = device.calls("cuStreamSynchronize")
            try:
                action()
            except st.CudaError as error:
                assert error.code == 2, error
            else:
                raise AssertionError("it worked")
            assert device.calls("cuStreamSynchronize") == waits + 1
            driver.sim_no_faults()
    """)


def test_copy_synchronizes_source_device(simulator) -> None:
    """Regression: with two GPUs the target was synchronized; the copy read before a kernel had written."""
    simulator.run("""
        import ctypes, threading
        import numpy as np, shmtensor as st
        from tests.cuda import device
        driver = device.library()
        for stream in (1, None):
            source = device.Array(np.zeros(4), stream=stream)
            target = st.ones(4, device="cuda:1")
            latch = device.Latch(f"latch-{stream}").close()
            device.check(driver.cuMemsetD8Async(
                ctypes.c_uint64(source.pointer), 7, ctypes.c_size_t(32), None))
            timer = threading.Timer(0.2, latch.open)
            timer.start()
            target.copy_(source)
            assert target.tolist() == source.read().tolist()
            timer.join()
    """)
