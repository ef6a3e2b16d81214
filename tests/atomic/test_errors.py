"""Bad input raises what NumPy raises, and changes nothing."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
import pytest

import shmtensor as st

WRITERS = ["add", "exchange", "minimum", "maximum", "store"]


def fails(error: type[Exception], text: str, tensor: Any, index: Any, value: Any, name: str = "add") -> None:
    before = tensor.storage().tobytes()
    with pytest.raises(error, match=text):
        getattr(st.atomic, name)(tensor, index, value)
    assert tensor.storage().tobytes() == before


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("uint32", -1, "-1 is out of bounds for uint32"),
        ("uint32", 2**32, f"{2**32} is out of bounds for uint32"),
        ("uint64", -1, "-1 is out of bounds for uint64"),
        ("uint64", 2**64, f"{2**64} is out of bounds"),
        ("int64", 2**63, f"{2**63} is out of bounds for int64"),
        ("int64", -(2**63) - 1, "is out of bounds"),
        ("int32", -(2**31) - 1, "is out of bounds for int32"),
        ("int32", np.int64(2**31), f"{2**31} is out of bounds for int32"),
        ("int32", np.uint64(2**63), "is out of bounds for int32"),
    ],
)
def test_values_that_do_not_fit(name, as_array, dtype, value, text) -> None:
    tensor = st.ones(3, dtype)
    if as_array:
        fails(OverflowError, text, tensor, [0, 1], [1, value], name)
    else:
        fails(OverflowError, text, tensor, 0, value, name)


def test_expected_values_that_do_not_fit() -> None:
    tensor = st.ones(3, np.uint32)
    for index in (0, [0, 1]):
        with pytest.raises(OverflowError):
            st.atomic.compare_exchange(tensor, index, -1, 1)
        with pytest.raises(OverflowError):
            st.atomic.compare_exchange(tensor, index, 1, -1)
    with pytest.raises(OverflowError):
        st.wait_for_change(tensor, 0, -1, timeout=0)
    assert tensor.tolist() == [1, 1, 1]


@pytest.mark.parametrize("index", [0, [0, 1]])
@pytest.mark.parametrize("value", [1.5, 1.0, "1", None, 1j, [object()], np.float64(1)])
def test_values_that_are_not_integers(index, value) -> None:
    fails(TypeError, "cannot convert .* to int64", st.ones(3, np.int64), index, value)


@pytest.mark.parametrize("value", ["1", None, 1j, [object()]])
def test_values_that_are_not_real_numbers(value) -> None:
    fails(TypeError, "cannot convert .* to float64", st.ones(3), [0, 1], value)
    fails(OverflowError, "too large", st.ones(3), 0, 10**400)


def test_values_that_do_not_broadcast() -> None:
    fails(ValueError, "broadcast", st.ones(3, np.int64), [0, 1], [1, 2, 3])
    fails(ValueError, "broadcast", st.ones(3, np.int64), 0, [1])
    fails(ValueError, "broadcast", st.ones((3, 3), np.int64), ([0, 1], [0, 1, 2]), 1)


@pytest.mark.parametrize("name", WRITERS)
def test_indices_out_of_range(name) -> None:
    tensor = st.ones((3, 4), np.int64)
    wanted = "index {} is out of bounds for axis {} with size {}"
    for index, text in [
        ((3, 0), wanted.format(3, 0, 3)),
        ((0, -5), wanted.format(-5, 1, 4)),
        ((0, 2**70), "out of bounds|too large"),
        (([0, 1, 3], 0), wanted.format(3, 0, 3)),
        (([0, 1], [0, 4]), wanted.format(4, 1, 4)),
        ((0, np.array([2**64 - 1], np.uint64)), wanted.format(2**64 - 1, 1, 4)),
    ]:
        fails(IndexError, text, tensor, index, 1, name)
    fails(IndexError, wanted.format(5, 0, 3), st.ones(3, np.int64), 5, 1, name)
    fails(IndexError, wanted.format(0, 0, 0), st.ones((0,), np.int64), 0, 1, name)


def test_indices_that_change_during_the_call_never_lead_outside() -> None:
    tensor, indices = st.zeros(4, np.int64), np.zeros(100_000, np.int64)
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            indices[50_000:] = 1 << 40
            indices[50_000:] = 0

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(100):
        with contextlib.suppress(IndexError):
            st.atomic.add(tensor, indices, 1)
    ended.set()
    thread.join()
    assert tensor[1:].tolist() == [0, 0, 0]


def test_indices_of_another_number_of_dimensions() -> None:
    two, none = st.ones((2, 2), np.int64), st.ones((), np.int64)
    text = "too many indices for array: array is 2-dimensional, but 3 were indexed"
    fails(IndexError, text, two, (0, 0, 0), 1)
    fails(IndexError, "too many indices", none, 0, 1)
    fails(IndexError, "2-dimensional, so an element needs 2 indices, not 1", two, 0, 1)
    fails(IndexError, "needs 2 indices, not 0", two, (), 1)


@pytest.mark.parametrize("index", [1.0, "0", None, slice(None), ..., True, [True, False], [0.5]])
def test_indices_that_are_not_integers(index) -> None:
    fails(IndexError, "an index is an integer or an array of integers", st.ones(2, np.int64), index, 1)


def test_indices_that_are_not_an_array() -> None:
    fails(ValueError, "inhomogeneous", st.ones(2, np.int64), [[0], [1, 1]], 1)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("index", [0, [0, 1]])
def test_readonly_tensor_is_not_written(name, index) -> None:
    fails(ValueError, f"{name} .*read-only", st.ones(3, np.int64).as_readonly(), index, 2, name)
    with pytest.raises(ValueError, match="read-only"):
        st.atomic.compare_exchange(st.ones(3, np.int64).as_readonly(), index, 1, 2)


@pytest.mark.parametrize("index", [1, [0, 1]])
def test_unaligned_elements_are_refused(index) -> None:
    storage = st.Storage(64).fill_(0)
    for tensor in (
        st.Tensor(storage, np.int64, 3, offset=4),
        st.Tensor(storage, np.int64, 3, strides=12),
        st.Tensor(storage, np.int32, 3, offset=2),
    ):
        fails(ValueError, "not aligned", tensor, index, 1)
        for call in (st.atomic.load, st.wait_for_change):
            with pytest.raises(ValueError, match="not aligned"):
                call(tensor, index, *([1] if call is st.wait_for_change else []))


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "complex64", ">i4", "U2", "M8[s]", "i4,i4"])
def test_other_dtypes_are_refused(dtype) -> None:
    tensor = st.zeros(3, dtype)
    for index in (0, [0]):
        with pytest.raises(TypeError, match="add takes int32, uint32, int64, uint64, float32, float64, not"):
            st.atomic.add(tensor, index, 1)
        with pytest.raises(TypeError, match="load takes int32"):
            st.atomic.load(tensor, index)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index", [0, [0]])
def test_floats_have_fewer_functions(dtype, index) -> None:
    text = "takes int32, uint32, int64, uint64, not {}; floats have add, exchange, load and store"
    tensor = st.ones(2, dtype)
    for name in ("minimum", "maximum"):
        fails(TypeError, text.format(dtype), tensor, index, 1, name)
    with pytest.raises(TypeError, match=text.format(dtype)):
        st.atomic.compare_exchange(tensor, index, 1, 2)


def test_other_objects_are_refused() -> None:
    for other in ([1, 2], None, st.ones(2, np.int64).storage(), memoryview(b"12345678")):
        with pytest.raises(TypeError, match="add takes a Tensor or a NumPy array, not"):
            st.atomic.add(other, 0, 1)
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        st.atomic.add(frozen, 0, 1)


def test_released_tensor_is_refused() -> None:
    tensor = st.ones(2, np.int64)
    tensor.release()
    for index in (0, [0]):
        with pytest.raises(ValueError, match="the tensor was released"):
            st.atomic.add(tensor, index, 1)


def test_wrong_arguments() -> None:
    tensor = st.ones(2, np.int64)
    for arguments in ((), (tensor,), (tensor, 0), (tensor, 0, 1, 2)):
        with pytest.raises(TypeError, match="argument"):
            st.atomic.add(*arguments)
    with pytest.raises(TypeError, match="argument"):
        st.atomic.add(tensor, 0, amount=1)
