"""empty, zeros, ones and full: shapes as NumPy takes them, filled with what NumPy fills with."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.dtypes import every_dtype, same_elements

pytestmark = pytest.mark.usefixtures("strategy")

MAX_DIMS = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32

SHAPES = [
    5,
    np.int64(5),
    np.uint8(5),
    np.array(5),
    (),
    [],
    (5,),
    [2, 3],
    (2, np.int16(3)),
    np.array([2, 3]),
    (0,),
    (3, 0, 2),
    0,
    (1,) * MAX_DIMS,
    (2,) * 10,
]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
@pytest.mark.parametrize("name", ["empty", "zeros", "ones"])
def test_shapes_and_default_dtype_match_numpy(name, shape) -> None:
    expected = getattr(np, name)(shape)
    tensor = getattr(st, name)(shape)
    assert (tensor.shape, tensor.dtype) == (expected.shape, np.float64)
    assert tensor.strides == expected.strides or tensor.size == 0
    assert (tensor.size, tensor.ndim, tensor.nbytes) == (expected.size, expected.ndim, expected.nbytes)
    assert all(type(size) is int for size in (*tensor.shape, *tensor.strides))
    assert tensor.numpy().shape == expected.shape
    if name != "empty":
        assert same_elements(tensor.numpy(), expected)


def test_tensor_is_accepted_as_shape() -> None:
    assert st.empty(st.asarray([2, 3])).shape == (2, 3)


@every_dtype
def test_every_dtype_is_kept_and_filled_like_numpy(dtype) -> None:
    for name in ("zeros", "ones"):
        if name == "ones" and (dtype.kind == "V" and dtype.isbuiltin):
            continue  # NumPy has no 1 of it
        tensor = getattr(st, name)((2, 3), dtype)
        assert tensor.dtype == dtype
        assert tensor.itemsize == dtype.itemsize
        assert same_elements(tensor.numpy(), getattr(np, name)((2, 3), dtype))
    assert st.empty(4, dtype).dtype == dtype


@pytest.mark.parametrize("dtype", ["f4", float, int, complex, bool, np.float16, "datetime64[ns]", "i2,f8"])
def test_dtype_spellings_match_numpy(dtype) -> None:
    assert st.zeros(2, dtype).dtype == np.zeros(2, dtype).dtype


@pytest.mark.parametrize("dtype", ["S", "U", str, bytes, "S0"])
def test_unsized_string_dtype_becomes_one_character(dtype) -> None:
    assert st.zeros(3, dtype).dtype == np.zeros(3, dtype).dtype
    assert st.ones(2, dtype).tolist() == np.ones(2, dtype).tolist()


def test_subarray_dtype_extends_the_shape() -> None:
    tensor = st.ones(2, ("f4", (3, 1)))
    assert (tensor.shape, tensor.dtype) == ((2, 3, 1), np.float32)
    assert tensor.numpy().tolist() == [[[1], [1], [1]]] * 2


@pytest.mark.parametrize(
    "value", [7, 2.5, True, 1j, "abc", b"xy", np.float32(3), np.datetime64("2024-02-29")]
)
def test_full_uses_dtype_of_its_value(value) -> None:
    expected = np.full((2, 2), value)
    tensor = st.full((2, 2), value)
    assert tensor.dtype == expected.dtype
    assert same_elements(tensor.numpy(), expected)


def test_full_broadcasts_and_converts_its_value() -> None:
    assert st.full((2, 3), [1, 2, 3], "f4").tolist() == [[1, 2, 3]] * 2
    assert st.full(2, st.asarray([5, 6])).tolist() == [5, 6]
    assert st.full(2, 2.9, int).tolist() == [2, 2]


LIKE = {
    "zeros_like": lambda module, model, **options: module.zeros_like(model, **options),
    "ones_like": lambda module, model, **options: module.ones_like(model, **options),
    "full_like": lambda module, model, **options: module.full_like(model, 7, **options),
}


@pytest.mark.parametrize("make", LIKE.values(), ids=LIKE)
@pytest.mark.parametrize("options", [{}, {"dtype": "i2"}], ids=["", "dtype"])
def test_like_functions_copy_shape_and_dtype(make, options) -> None:
    """Regression: only numpy.zeros_like existed, which returns a private array."""
    array = np.arange(6, dtype="f4").reshape(2, 3)
    source = st.asarray(array)
    models = [source, source.T, source[0, 0], source.as_readonly()]
    for model in [*models, st.zeros((0, 3), ">i4"), st.asarray(["ab", "c"]), array.T, [[1, 2]], 2.5]:
        tensor, expected = make(st, model, **options), make(np, np.asarray(model), **options)
        assert same_elements(tensor.numpy(), expected)
        assert (tensor.dtype, tensor.shape) == (expected.dtype, expected.shape)
        assert tensor.is_shared()
        assert not tensor.readonly
        assert tensor.is_contiguous()
        assert tensor.data_ptr() != getattr(model, "data_ptr", int)()
        empty = st.empty_like(model, **options)
        assert (empty.dtype, empty.shape, empty.is_shared()) == (expected.dtype, expected.shape, True)
    assert st.full_like(array, [1, 2, 3]).tolist() == [[1, 2, 3]] * 2
    assert st.full_like(st.zeros(2, int), 2.9).tolist() == [2, 2]
    with pytest.raises(ValueError, match="tpu"):
        make(st, array, device="tpu")


def test_new_tensors_are_shared_writable_and_c_contiguous() -> None:
    for tensor in (st.empty((2, 3)), st.zeros((2, 3)), st.ones((2, 3)), st.full((2, 3), 4)):
        assert tensor.is_shared()
        assert not tensor.readonly
        assert tensor.is_contiguous()
        assert tensor.storage_offset() == 0
        assert tensor.device == "cpu"


@pytest.mark.parametrize("size", [24, 4096, 100_000, 3_000_000])
def test_zeros_clears_reused_blocks(size) -> None:
    for _ in range(5):
        dirty = st.empty(size, "u1").fill_(255)
        address = dirty.data_ptr()
        del dirty
        clean = st.zeros(size, "u1")
        assert not clean.numpy().any()
        assert clean.data_ptr() == address, "the block was recycled, else this shows nothing"
        del clean
