"""NumPy reads a tensor of any dtype without a copy; conversions copy."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given

import shmtensor as st
from tests.helpers.dtypes import ALL, every_dtype, name_of, same_elements, some_array
from tests.helpers.generators import generated, tensors

pytestmark = pytest.mark.usefixtures("strategy")

NUMPY_2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"


@every_dtype
def test_numpy_view_has_the_exact_dtype(dtype) -> None:
    tensor = st.asarray(some_array(dtype))
    array = tensor.numpy()
    assert type(array) is np.ndarray
    assert array.dtype == dtype
    assert array.ctypes.data == tensor.data_ptr()
    array[0] = array[1]
    assert same_elements(tensor.numpy()[0], array[1])


@pytest.mark.parametrize("dtype", ALL, ids=name_of)
@pytest.mark.parametrize(
    "convert", [np.asarray, np.asanyarray, lambda t: np.array(t, copy=None if NUMPY_2 else False)]
)
def test_asarray_of_every_dtype_shares_the_memory(dtype, convert) -> None:
    source = some_array(dtype)
    tensor = st.asarray(source)[::-1, 1:]
    array = convert(tensor)
    assert same_elements(array, source[::-1, 1:])
    assert array.__array_interface__["data"][0] == tensor.data_ptr()
    assert array.strides == tensor.strides
    assert array.flags.writeable
    assert not convert(tensor.as_readonly()).flags.writeable


@generated(200)
@given(tensors())
def test_asarray_of_any_strides_shares_the_memory(tensor) -> None:
    array = np.asarray(tensor)
    assert same_elements(array, tensor.numpy())
    assert array.flags.writeable == (not tensor.readonly)
    if tensor.size:
        assert array.__array_interface__["data"][0] == tensor.data_ptr()
        steps = zip(tensor.shape, array.strides, tensor.strides, strict=True)
        assert all(ours == numpys for size, numpys, ours in steps if size > 1), "the others do not matter"


def test_array_keeps_the_memory() -> None:
    for convert in (np.asarray, st.Tensor.numpy, lambda t: t.__array__(), np.from_dlpack):
        array = convert(st.full(1000, 7.0))
        gc.collect()
        other = st.full(1000, 8.0)
        assert (array == 7).all()
        del other, array


def test_array_method_copies_for_other_dtype_or_on_request() -> None:
    tensor = st.asarray([1.0, 2])
    for copy in (
        np.asarray(tensor, "f4"),
        tensor.__array__("i2"),
        np.array(tensor),
        tensor.__array__(copy=True),
    ):
        assert not np.shares_memory(copy, tensor.numpy())
        assert copy.tolist() == [1, 2]
    assert np.shares_memory(tensor.__array__("f8"), tensor.numpy())
    assert np.shares_memory(tensor.__array__(copy=False), tensor.numpy())
    with pytest.raises(ValueError, match="float64 to float32 needs a copy"):
        tensor.__array__("f4", copy=False)


@pytest.mark.skipif(not NUMPY_2, reason="copy=False means never since NumPy 2")
def test_copy_false_never_copies() -> None:
    tensor = st.asarray([1.0, 2])
    assert np.shares_memory(np.array(tensor, copy=False), tensor.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.array(tensor, "f4", copy=False)


def test_array_interface_describes_memory() -> None:
    tensor = st.zeros((3, 4), ">i4")[:, ::2].as_readonly()
    interface = tensor.__array_interface__
    assert interface["version"] == 3
    assert interface["typestr"] == ">i4"
    assert interface["shape"] == (3, 2)
    assert interface["strides"] == (16, 8)
    assert interface["data"] == (tensor.data_ptr(), True)


class Seen:
    """An object of which NumPy uses only the array interface."""

    def __init__(self, interface: dict[str, object]) -> None:
        self.__array_interface__ = interface


@pytest.mark.parametrize("dtype", ALL, ids=name_of)
def test_array_interface_exists_only_for_supported_dtypes(dtype) -> None:
    tensor = st.asarray(some_array(dtype))
    if not hasattr(tensor, "__array_interface__"):
        assert dtype.isbuiltin == 2 or dtype.names, "foreign and padded dtypes"
        return

    assert same_elements(np.asarray(Seen(tensor.__array_interface__)), tensor.numpy())


def test_lists_of_tensors_become_arrays() -> None:
    tensors = [st.full(3, n) for n in range(4)]
    assert np.array(tensors).tolist() == [[0] * 3, [1] * 3, [2] * 3, [3] * 3]
    assert np.array([tensor[0] for tensor in tensors]).tolist() == [0, 1, 2, 3]
    assert st.asarray(tensors).shape == (4, 3)
