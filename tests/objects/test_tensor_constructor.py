"""Tensor(storage, dtype, shape, strides, offset, readonly): no element is ever outside of the storage."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as some

import shmtensor as st
from tests.helpers.generators import extent, generated, tensors

pytestmark = pytest.mark.usefixtures("strategy")

CONTENT = bytes(range(60))


def element_offsets(shape, strides, offset) -> list[int]:
    """Return the offset of each element."""
    indices = itertools.product(*map(range, shape))
    return [offset + sum(i * s for i, s in zip(index, strides, strict=True)) for index in indices]


@pytest.mark.thorough
@generated(500)
@given(
    some.sampled_from(["u1", "i2", "f4", "c16", "S3"]),
    some.lists(some.tuples(some.integers(0, 4), some.integers(-20, 20)), max_size=3),
    some.integers(-4, 64),
    some.booleans(),
)
@example("u1", [], 59, False)
@example("u1", [], 60, False)
@example("u1", [(0, 5)], 60, False)
@example("u1", [(0, 5)], 61, False)
def test_bounds_check_agrees_with_brute_force(dtype, axes, offset, readonly) -> None:
    dtype = np.dtype(dtype)
    shape, strides = tuple(size for size, _ in axes), tuple(stride for _, stride in axes)
    storage = st.Storage(60).copy_(CONTENT)
    places = element_offsets(shape, strides, offset)
    inside = all(0 <= place <= 60 - dtype.itemsize for place in places) if places else 0 <= offset <= 60
    if not inside:
        with pytest.raises(ValueError, match="does not fit into a storage of 60 bytes"):
            st.Tensor(storage, dtype, shape, strides, offset, readonly)
        return
    tensor = st.Tensor(storage, dtype, shape, strides, offset, readonly)
    assert (tensor.shape, tensor.strides, tensor.storage_offset()) == (shape, strides, offset)
    assert tensor.readonly is readonly
    assert tensor.numpy().tobytes() == b"".join(CONTENT[place : place + dtype.itemsize] for place in places)


@generated(200)
@given(tensors(), some.integers(1, 2**62))
def test_view_one_byte_past_the_end_is_rejected(tensor, beyond) -> None:
    before, after = extent(tensor.shape, tensor.strides, tensor.itemsize)
    limit = tensor.storage().nbytes
    make = st.Tensor
    make(tensor.storage(), tensor.dtype, tensor.shape, tensor.strides, before)
    make(tensor.storage(), tensor.dtype, tensor.shape, tensor.strides, limit - after)
    for offset in (before - 1, before - beyond, limit - after + 1, limit - after + beyond):
        if tensor.size == 0 and 0 <= offset <= limit:
            continue
        with pytest.raises(ValueError, match="does not fit"):
            make(tensor.storage(), tensor.dtype, tensor.shape, tensor.strides, offset)


def test_default_strides_are_c_contiguous_at_offset_zero() -> None:
    storage = st.Storage(60).copy_(CONTENT)
    tensor = st.Tensor(storage, "i4", (3, 5))
    assert (tensor.strides, tensor.storage_offset(), tensor.readonly) == ((20, 4), 0, False)
    assert st.Tensor(storage, "u1", 60).shape == (60,)
    assert st.Tensor(storage=storage, dtype=None, shape=[7], offset=4).dtype == np.float64


LARGE = 2**63 - 1


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((16,), None, 0),
        ((2,), (LARGE,), 0),
        ((2,), (-LARGE - 1,), 0),
        ((2, 2), (LARGE, -LARGE), 0),
        ((2, 2), (LARGE, LARGE), 0),
        ((LARGE,), (0,), 0),
        ((2**31, 2**31), (0, 0), 0),
        ((1,), (8,), LARGE),
        ((1,), (8,), -LARGE - 1),
        ((0,), (8,), 61),
        ((0,), (8,), -1),
        ((3,), (30,), 1),
        ((3,), (-30,), 59),
    ],
)
def test_extreme_sizes_and_strides_do_not_overflow(shape, strides, offset) -> None:
    with pytest.raises(ValueError, match=r"does not fit|too big"):
        st.Tensor(st.Storage(60), "f4", shape, strides, offset)


def test_unused_strides_may_have_any_value() -> None:
    for shape, strides in (((1,), (LARGE,)), ((0, 2), (LARGE, -LARGE)), ((1, 3), (-LARGE - 1, 4))):
        tensor = st.Tensor(st.Storage(60), "f4", shape, strides, 20)
        assert tensor.strides == strides
        assert tensor.numpy().shape == shape


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"storage": bytearray(60)}, TypeError, "Storage, not bytearray"),
        ({"storage": None}, TypeError, "None"),
        ({"shape": (2, -1)}, ValueError, "-1"),
        ({"shape": 2.5}, TypeError, "2.5"),
        ({"shape": (1,) * 65}, ValueError, "65"),
        ({"shape": (1,) * 64, "dtype": ("f4", (2,))}, ValueError, "65"),
        ({"strides": (4, 4)}, ValueError, r"strides \(4, 4\).*shape \(2,\)"),
        ({"strides": ()}, ValueError, r"strides \(\).*shape \(2,\)"),
        ({"strides": "x"}, TypeError, "x"),
        ({"strides": (2**63,)}, ValueError, str(2**63)),
        ({"offset": 2**63}, ValueError, str(2**63)),
        ({"offset": 1.5}, TypeError, "1.5"),
        ({"offset": None}, TypeError, "None"),
        ({"dtype": "foo"}, TypeError, "foo"),
        ({"nothing": 1}, TypeError, "nothing"),
    ],
)
def test_arguments_of_wrong_type_are_named(arguments, kind, text) -> None:
    good = {"storage": st.Storage(60), "dtype": "f4", "shape": (2,)}
    with pytest.raises(kind, match=text):
        st.Tensor(**(good | arguments))


def test_subarray_dtype_adds_dimensions_and_strides() -> None:
    storage = st.Storage(60).copy_(CONTENT)
    tensor = st.Tensor(storage, ("u1", (2, 3)), (2,), (-12,), 12)
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((2, 2, 3), (-12, 3, 1), np.uint8)
    assert tensor.tolist() == [[[12, 13, 14], [15, 16, 17]], [[0, 1, 2], [3, 4, 5]]]


def test_empty_storage_holds_empty_tensors() -> None:
    for storage in (st.Storage(0), st.frombuffer(b"").storage()):
        assert st.Tensor(storage, "f8", (3, 0)).numpy().shape == (3, 0)
        with pytest.raises(ValueError, match="storage of 0 bytes"):
            st.Tensor(storage, "f8", ())
