"""The results in one process are those of NumPy's functions, for all dtypes, shapes, strides and indices."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import shmtensor as st
from tests.helpers.generators import generated, tensors

INTEGERS = ["int32", "uint32", "int64", "uint64"]
FLOATS = ["float32", "float64"]
OF_NUMPY = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}
dtypes = some.sampled_from([np.dtype(name) for name in INTEGERS + FLOATS])


def suitable(tensor: st.Tensor) -> bool:
    place = tensor.data_ptr() if tensor.size else 0
    aligned = all(step % tensor.itemsize == 0 for step in (*tensor.strides, place))
    return aligned and not tensor.readonly and tensor.size > 0


tensors_of_numbers = tensors(dtypes=dtypes).filter(suitable)


def numbers_of(dtype: np.dtype) -> Any:
    if dtype.kind == "f":
        return some.integers(-1000, 1000).map(float)
    limits = np.iinfo(dtype)
    return some.integers(int(limits.min), int(limits.max))


@some.composite
def index_arrays(draw: Any, shape: tuple[int, ...]) -> Any:
    """Generate integer arrays, one for each axis, that broadcast."""
    sizes = draw(some.lists(some.integers(0, 4), max_size=2))
    parts = []
    for length in shape:
        own = [draw(some.sampled_from([size, 1])) for size in sizes]
        own = own[draw(some.integers(0, len(own))) :]
        kind = draw(some.sampled_from(["int64", "int32", "uint8", "uint64", "tensor", "list"]))
        least = 0 if kind.startswith("u") else -length
        flat = [draw(some.integers(least, length - 1)) for _ in range(int(np.prod(own)))]
        array = np.array(flat, kind if kind[-1].isdigit() else "int64").reshape(own)
        parts.append(array.tolist() if kind == "list" else st.asarray(array) if kind == "tensor" else array)
    return parts[0] if len(parts) == 1 and draw(some.booleans()) else tuple(parts)


def numpy_index(index: Any) -> tuple[np.ndarray, ...]:
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(np.asarray(part, np.int64) for part in parts)


def shape_of(index: tuple[np.ndarray, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(part.shape for part in index))


def values_for(draw: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """Draw a scalar, or an array that broadcasts to the shape."""
    if draw(some.booleans()):
        return draw(numbers_of(dtype))
    own = tuple(draw(some.sampled_from([size, 1])) for size in shape)
    own = own[draw(some.integers(0, len(own))) :]
    flat = [draw(numbers_of(dtype)) for _ in range(int(np.prod(own)))]
    return np.array(flat, dtype).reshape(own)


@generated(300)
@given(some.data())
def test_arrays_of_indices_give_what_ufunc_at_gives(data) -> None:
    tensor = data.draw(tensors_of_numbers)
    tensor.fill_(3)
    name = data.draw(some.sampled_from(["add"] if tensor.dtype.kind == "f" else sorted(OF_NUMPY)))
    index = data.draw(index_arrays(tensor.shape))
    plain = numpy_index(index)
    value = values_for(data.draw, tensor.dtype, shape_of(plain))
    expected = tensor.storage().clone()
    wanted = st.Tensor(expected, tensor.dtype, tensor.shape, tensor.strides, tensor.storage_offset())
    OF_NUMPY[name].at(wanted.numpy(), plain, np.asarray(value, tensor.dtype))
    before = wanted.numpy() if shape_of(plain) else tensor.numpy()[plain].item()
    found = getattr(st.atomic, name)(tensor, index, value)
    if shape_of(plain):
        assert found is None
    else:
        assert found == before
    assert tensor.storage().tobytes() == expected.tobytes()  # nor anything beside the elements


@generated(200)
@given(some.data())
def test_arrays_of_indices_load_and_store(data) -> None:
    tensor = data.draw(tensors_of_numbers)
    tensor.copy_(np.arange(tensor.size).reshape(tensor.shape))
    plain = numpy_index(index := data.draw(index_arrays(tensor.shape)))
    shape = shape_of(plain)
    expected = tensor.numpy()[plain]
    loaded = st.atomic.load(tensor, index)
    np.testing.assert_array_equal(loaded, expected)
    if shape:
        assert (type(loaded), loaded.dtype, loaded.shape) == (np.ndarray, tensor.dtype, shape)
    else:
        assert type(loaded) is (float if tensor.dtype.kind == "f" else int)
    value = values_for(data.draw, tensor.dtype, shape)
    for name in ("store", "exchange"):
        found = getattr(st.atomic, name)(tensor, index, value)
        written = tensor.numpy()[plain]
        if np.ndim(value) == 0:
            assert (written == np.asarray(value, tensor.dtype)).all()
        else:  # of several values for one element, the last counts
            array = np.broadcast_to(value, shape)
            wanted = tensor.numpy().copy()
            wanted[plain] = array
            np.testing.assert_array_equal(tensor, wanted)
        assert found is None or (name == "exchange" and shape == ())


@pytest.mark.parametrize("dtype", INTEGERS)
def test_compare_exchange_of_arrays_tells_what_was_stored(dtype) -> None:
    tensor = st.asarray(np.array([5, 6, 5, 7], dtype))
    done = st.atomic.compare_exchange(tensor, [0, 1, -2, 0], 5, [1, 2, 3, 4])
    assert done.dtype == bool
    assert done.tolist() == [True, False, True, False]
    assert tensor.tolist() == [1, 6, 3, 7]
    assert st.atomic.compare_exchange(tensor, [[0], [1]], [[1], [6]], 9).tolist() == [[True], [True]]
    assert st.atomic.compare_exchange(tensor, 0, 1, 2) is False
    assert st.atomic.compare_exchange(tensor, 0, 9, 2) is True
    assert tensor.tolist() == [2, 9, 3, 7]


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("integer", [int, np.int64, np.uint8, np.array])
def test_scalar_index_gives_the_previous_value(dtype, integer) -> None:
    tensor = st.asarray(np.arange(12, dtype=dtype).reshape(3, 4))
    kind = float if dtype in FLOATS else int
    for found, wanted in [
        (st.atomic.add(tensor, (integer(1), integer(2)), integer(5)), 6),
        (st.atomic.exchange(tensor, (integer(1), -2), 7), 11),
        (st.atomic.load(tensor, (-2, integer(2))), 7),
    ]:
        assert type(found) is kind
        assert found == wanted
    assert st.atomic.store(tensor, (0, 0), integer(8)) is None
    assert tensor[0, 0].item() == 8


def test_scalar_minimum_and_maximum_give_the_previous_value() -> None:
    tensor = st.asarray(np.array([5, -5]))
    assert st.atomic.minimum(tensor, 0, 7) == 5
    assert st.atomic.minimum(tensor, 0, 3) == 5
    assert st.atomic.maximum(tensor, 1, -7) == -5
    assert st.atomic.maximum(tensor, 1, -3) == -5
    assert tensor.tolist() == [3, -3]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("index", [0, [0]])
def test_integers_wrap_around_as_in_numpy(dtype, index) -> None:
    limits = np.iinfo(dtype)
    tensor = st.full(1, limits.max, dtype=dtype)
    st.atomic.add(tensor, index, 1)
    assert tensor[0].item() == limits.min
    st.atomic.add(tensor, index, limits.max)
    assert tensor[0].item() == (limits.max if limits.min == 0 else -1)


@pytest.mark.parametrize("index", [0, [0]])
def test_floats_take_any_real_number(index) -> None:
    for dtype in FLOATS:
        tensor = st.zeros(1, dtype)
        for value in (1, 0.5, np.float32(0.25), np.int8(2), True, 2**70, np.array(1.0)):
            st.atomic.add(tensor, index, value)
        st.atomic.exchange(tensor, index, 1e300)
        assert tensor[0].item() == (np.inf if dtype == "float32" else 1e300)


def test_element_without_dimension() -> None:
    tensor = st.zeros((), np.int32)
    assert st.atomic.add(tensor, (), 3) == 0
    assert st.atomic.load(tensor, ()) == 3
    assert st.wait_for_change(tensor, (), 2, timeout=0)


def test_unsigned_integers_above_the_signed() -> None:
    tensor = st.zeros(2, np.uint64)
    assert st.atomic.exchange(tensor, 0, 2**64 - 1) == 0
    assert st.atomic.load(tensor, 0) == 2**64 - 1
    st.atomic.store(tensor, [0, 1], [1, 2**63 + 1])  # NumPy makes floats of such a list
    assert tensor.tolist() == [1, 2**63 + 1]


def test_no_indices_change_nothing() -> None:
    tensor = st.ones(3, np.int64)
    for empty in ([], np.zeros((0, 2), np.int32)):
        st.atomic.add(tensor, empty, 1)
        assert st.atomic.load(tensor, empty).shape == np.shape(empty)
    assert tensor.tolist() == [1, 1, 1]


def test_operands_in_the_same_memory_are_those_before_the_call() -> None:
    for name in ("index", "value"):
        tensor = st.asarray(np.array([1, 2, 0, 3]))
        wanted = tensor.numpy().copy()
        index, value = (tensor, 1) if name == "index" else ([1, 2, 3], tensor[:3])
        np.add.at(wanted, np.asarray(index).copy(), np.asarray(value).copy())
        st.atomic.add(tensor, index, value)
        np.testing.assert_array_equal(tensor, wanted)


def test_numpy_arrays_are_accepted() -> None:
    array = np.zeros(3, np.longlong)  # another type object than int64's
    assert st.atomic.add(array, 1, 2) == 0
    st.atomic.add(array, [1, 1], 2)
    shared = st.zeros(4, np.int32)
    st.atomic.add(shared.numpy()[::-1], 0, 3)
    assert array.tolist() == [0, 6, 0]
    assert shared.tolist() == [0, 0, 0, 3]


def test_readonly_tensor_can_be_read() -> None:
    tensor = st.ones(2, np.int64).as_readonly()
    assert st.atomic.load(tensor, 0) == 1
    assert st.atomic.load(tensor, [0, 1]).tolist() == [1, 1]
    assert st.wait_for_change(tensor, 0, 0, timeout=0)


def test_many_elements_leave_the_interpreter_to_other_threads() -> None:
    """With the GIL held, threads that add to one element would still be exact: its release must be, too."""
    tensor = st.zeros(2, np.int64)
    indices = np.tile([0, 1], 200_000)
    threads = [threading.Thread(target=st.atomic.add, args=(tensor, indices, 1)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tensor.tolist() == [800_000, 800_000]


@pytest.mark.parametrize("name", st.atomic.__all__)
def test_functions_have_signatures_and_take_keywords(name) -> None:
    function = getattr(st.atomic, name)
    given = {"tensor": st.ones(1, np.int64), "index": 0, "value": 1, "expected": 1, "old": 0, "timeout": 0}
    names = list(inspect.signature(function).parameters)
    function(**{one: given[one] for one in names})
    assert (function.__name__, function.__module__) == (name, "shmtensor.atomic")
    with pytest.raises(TypeError):
        function()
