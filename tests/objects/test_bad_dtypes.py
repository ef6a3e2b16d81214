"""Invalid dtypes, devices and sources: the exception, the value in its text, nothing left."""

from __future__ import annotations

import re

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.parameter_names import short_repr

pytestmark = pytest.mark.usefixtures("strategy")

OBJECTS = [object, "O", [("a", "i4"), ("b", object)], [("a", [("deep", "O", (2,))])]]
if hasattr(np, "dtypes") and hasattr(np.dtypes, "StringDType"):
    OBJECTS.append(np.dtypes.StringDType())

CREATORS = {
    "empty": lambda dtype: st.empty(2, dtype),
    "zeros": lambda dtype: st.zeros(2, dtype),
    "ones": lambda dtype: st.ones(2, dtype),
    "full": lambda dtype: st.full(2, 0, dtype),
    "asarray": lambda dtype: st.asarray([0, 1], dtype),
    "Tensor": lambda dtype: st.Tensor(st.Storage(64), dtype, 2),
}
creators = pytest.mark.parametrize("create", CREATORS.values(), ids=CREATORS)


@creators
@pytest.mark.parametrize("dtype", OBJECTS, ids=str)
def test_object_dtype_is_rejected(create, dtype) -> None:
    with assert_no_leaks(), pytest.raises(TypeError, match=r"cannot share dtype.*Python objects"):
        create(dtype)


@creators
@pytest.mark.parametrize("dtype", ["foo", "f3", 5.0, "M8[parsec]", [("a",)]], ids=str)
def test_unknown_dtype_raises_like_numpy(create, dtype) -> None:
    with pytest.raises(Exception) as numpys:  # noqa: PT011  # whatever it is
        np.dtype(dtype)
    with assert_no_leaks(), pytest.raises(numpys.type) as ours:
        create(dtype)
    assert str(ours.value) == str(numpys.value)


class OfTorch:
    __module__ = "torch"

    def __str__(self) -> str:
        return "torch.float32"


@creators
@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [(4, "a shape of several sizes is one argument, such as (3, 4)"), (OfTorch(), "use its name, 'float32'")],
    ids=["size", "torch"],
)
def test_common_mistake_names_the_remedy(create, dtype, remedy) -> None:
    with assert_no_leaks(), pytest.raises(TypeError, match=f"data type; {re.escape(remedy)}$"):
        create(dtype)


@pytest.mark.parametrize("dtype", ["V", [], np.dtype("V0")], ids=str)
def test_dtype_without_itemsize_is_rejected(dtype) -> None:
    with assert_no_leaks(), pytest.raises(TypeError, match=r"cannot share dtype .*no size"):
        st.empty(3, dtype)


@pytest.mark.parametrize("source", [[object()], [1, None], [2**70], np.array([{}])], ids=short_repr)
def test_sources_of_object_dtype_are_rejected(source) -> None:
    with assert_no_leaks(), pytest.raises(TypeError, match="cannot share dtype object"):
        st.asarray(source)


def test_wrapping_object_arrays_is_rejected() -> None:
    arrays = [np.array([None]), np.zeros(2, [("a", object)])]
    if hasattr(np, "dtypes") and hasattr(np.dtypes, "StringDType"):
        arrays.append(np.array(["a"], np.dtypes.StringDType()))
    for array in arrays:
        with pytest.raises(TypeError, match="cannot share dtype"):
            st.from_numpy(array)


def test_ragged_lists_and_overflows_raise_like_numpy() -> None:
    with assert_no_leaks(), pytest.raises(ValueError, match="inhomogeneous"):
        st.asarray([[1], [1, 2]], int)
    with assert_no_leaks(), pytest.raises(ValueError, match=r"invalid literal.*'x'"):
        st.asarray(["x"], int)
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with assert_no_leaks(), pytest.raises(OverflowError, match="300"):
            st.asarray([300], "u1")


@pytest.mark.parametrize("device", ["gpu", "CPU", "", 0, "cuda:", "cuda:x", "cuda:-1"])
def test_missing_device_is_named(device) -> None:
    tensor = st.zeros(2)
    uses = [
        lambda: st.empty(2, device=device),
        lambda: st.zeros(2, device=device),
        lambda: st.ones(2, device=device),
        lambda: st.full(2, 1, device=device),
        lambda: st.asarray([1], device=device),
        lambda: st.asarray(tensor, device=device),
        lambda: st.Storage(8, device),
        lambda: tensor.to(device),
    ]
    for use in uses:
        with assert_no_leaks(), pytest.raises(ValueError, match=f"device {device!r} is unknown"):
            use()


@pytest.mark.parametrize("source", [[1, 2], 5, "text", None, memoryview(b"12345678")], ids=short_repr)
def test_from_numpy_accepts_only_numpy_arrays(source) -> None:
    with pytest.raises(TypeError, match=f"expected a NumPy array, not a {type(source).__name__}"):
        st.from_numpy(source)


@pytest.mark.parametrize("source", [5, "text", [1, 2], None], ids=repr)
def test_frombuffer_accepts_only_buffers(source) -> None:
    with pytest.raises(TypeError, match=type(source).__name__):
        st.frombuffer(source)
