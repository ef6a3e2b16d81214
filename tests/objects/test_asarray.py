"""asarray: sources that are copied into shared memory, returned themselves, or refused."""

from __future__ import annotations

import array as standard_array

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.dtypes import every_dtype, same_elements, some_array
from tests.helpers.live_resources import assert_no_leaks, live_resources
from tests.helpers.parameter_names import short_repr

pytestmark = pytest.mark.usefixtures("strategy")


@every_dtype
def test_asarray_copies_every_dtype_into_shared_memory(dtype) -> None:
    source = some_array(dtype)
    tensor = st.asarray(source)
    assert tensor.is_shared()
    assert tensor.is_contiguous()
    assert same_elements(tensor.numpy(), source)
    assert not np.shares_memory(tensor.numpy(), source)


ANYTHING = [
    *(5, 2.5, 1j, True, "text", b"bytes", np.float32(2), np.datetime64("2024-01-01", "s")),
    *([[1, 2], [3, 4]], (1, 2.5), range(4), [], [[], []], [np.arange(3), np.arange(3)], [b"ab", "c"]),
    *(bytearray(b"abc"), memoryview(b"abcd").cast("H"), standard_array.array("d", [1, 2])),
    np.ma.masked_array([1, 2], [True, False]),
]


@pytest.mark.parametrize("obj", ANYTHING, ids=short_repr)
def test_asarray_accepts_anything_numpy_accepts(obj) -> None:
    expected = np.asarray(obj)
    assert same_elements(st.asarray(obj).numpy(), expected)


def test_asarray_accepts_array_protocols() -> None:
    class WithArray:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3, dtype=dtype)

    class WithInterface:
        array = np.arange(4.0)
        __array_interface__ = array.__array_interface__

    assert st.asarray(WithArray()).tolist() == [0, 1, 2]
    assert st.asarray(WithArray(), "f4").dtype == np.float32
    assert st.asarray(WithInterface()).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("obj", "dtype"),
    [
        ([1, 2], "f4"),
        ([1.5, None], float),
        (["1", "2"], int),
        (["a", "bcd"], "S"),
        ([1, 22], str),
        (["2024-02-29"], "M8"),
        ([5, 6], "m8[s]"),
        (2**63, "u8"),
        (np.array([1.9, -1.9]), "i2"),
        (np.array([1, 22]), "S"),
        (np.array(["2024-02-29T12:00"]), "M8"),
        (np.arange(3), ">i4"),
        (np.array([1, 2], object), float),
        ([[1, 2], [3, 4]], "b"),
        (np.arange(4), "c8"),
        ([(1, 2.5)], [("a", "i2"), ("b", "f8")]),
    ],
    ids=repr,
)
def test_asarray_converts_dtypes_like_numpy(obj, dtype) -> None:
    expected = np.asarray(obj, dtype)
    tensor = st.asarray(obj, dtype)
    assert same_elements(tensor.numpy(), expected)
    assert same_elements(st.asarray(expected, dtype).numpy(), expected)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1, ::2],
        lambda a: a[:, 1],
        np.asfortranarray,
        lambda a: np.broadcast_to(a, (2, *a.shape)),
        lambda a: np.lib.stride_tricks.as_strided(a, (2, 2), (0, 8)),
    ],
)
def test_asarray_makes_noncontiguous_source_contiguous(view) -> None:
    source = view(np.arange(12.0).reshape(3, 4))
    tensor = st.asarray(source)
    assert tensor.is_contiguous()
    assert same_elements(tensor.numpy(), source)


def test_asarray_of_readonly_source_is_writable() -> None:
    source = np.arange(3)
    source.flags.writeable = False
    tensor = st.asarray(source)
    assert not tensor.readonly
    tensor[0] = 7
    assert source[0] == 0


def test_asarray_returns_matching_shared_tensor_itself() -> None:
    tensor = st.ones(3)
    readonly = tensor.as_readonly()
    for same in (st.asarray(tensor), st.asarray(tensor, float), st.asarray(tensor, "f8", "cpu")):
        assert same is tensor
    assert st.asarray(tensor, copy=False) is tensor
    assert st.asarray(readonly) is readonly


def test_asarray_copy_of_tensor_is_independent() -> None:
    tensor = st.asarray([1, 2, 3])
    for copy in (st.asarray(tensor, copy=True), st.asarray(tensor.as_readonly(), copy=True)):
        assert copy.storage() is not tensor.storage()
        assert copy.tolist() == [1, 2, 3]
        assert not copy.readonly
    converted = st.asarray(tensor[::-1], "f4")
    assert (converted.tolist(), converted.dtype) == ([3, 2, 1], np.float32)


def test_asarray_copies_private_tensor() -> None:
    private = st.from_numpy(np.arange(3))
    shared = st.asarray(private)
    assert shared.is_shared()
    assert not private.is_shared()
    shared[0] = 9
    assert private.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("obj", "dtype"), [([1, 2], None), (np.arange(3), None), (st.from_numpy(np.ones(2)), None)], ids=str
)
def test_copy_false_raises_if_copy_is_needed(obj, dtype) -> None:
    with (
        assert_no_leaks(),
        pytest.raises(ValueError, match=f"this {type(obj).__name__} cannot be shared without a copy"),
    ):
        st.asarray(obj, dtype, copy=False)


def test_copy_false_raises_for_other_dtype() -> None:
    with pytest.raises(ValueError, match="cannot be shared without a copy"):
        st.asarray(st.ones(2), "f4", copy=False)


def test_asarray_copy_does_not_reference_its_source() -> None:
    before = live_resources()
    source = st.asarray(np.arange(1000))
    copy = st.asarray(source, copy=True)
    del source
    assert live_resources()[1] == before[1] + 8000
    del copy
    assert live_resources() == before
