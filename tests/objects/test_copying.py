"""clone, copy and deepcopy create new tensors; copy_, fill_ and zero_ write into the existing one."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.dtypes import every_dtype, same_elements, some_array

pytestmark = pytest.mark.usefixtures("strategy")

COPIES = {"clone": st.Tensor.clone, "copy": copy.copy, "deepcopy": copy.deepcopy}
copies = pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)


@copies
@every_dtype
def test_copy_is_shared_contiguous_and_writable(duplicate, dtype) -> None:
    array = some_array(dtype)
    for source in (st.asarray(array).T.as_readonly(), st.from_numpy(array)[::-1]):
        twin = duplicate(source)
        assert type(twin) is st.Tensor
        assert (twin.is_shared(), twin.is_contiguous(), twin.readonly) == (True, True, False)
        assert twin.storage() is not source.storage()
        assert same_elements(twin.numpy(), source.numpy())


@copies
def test_writes_to_copy_do_not_reach_original(duplicate) -> None:
    tensor = st.zeros(3)
    duplicate(tensor).fill_(1)
    assert tensor.tolist() == [0, 0, 0]


def test_deepcopy_keeps_repeated_tensor_identity() -> None:
    tensor = st.zeros(3)
    first, second = copy.deepcopy([tensor, tensor])
    assert first is second
    assert first is not tensor


@pytest.mark.parametrize(
    "source",
    [
        7,
        2.9,
        [1, 2, 3],
        [[1], [2]],
        np.arange(6).reshape(2, 3),
        np.arange(3, dtype=">i2"),
        np.array("5"),
        True,
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", ["f8", "i4", "u1", ">f4", "c8", "U3", "?"])
def test_copy_broadcasts_and_converts_like_numpy(source, dtype) -> None:
    expected = np.zeros((2, 3), dtype)
    np.copyto(expected, source, casting="unsafe")
    tensor = st.zeros((2, 3), dtype)
    assert tensor.copy_(source) is tensor
    assert same_elements(tensor.numpy(), expected)
    other = st.zeros((2, 3), dtype)
    assert same_elements(other.copy_(st.asarray(source)).numpy(), expected) or dtype in "U3"


def test_copy_from_an_overlapping_view_of_itself() -> None:
    tensor = st.asarray(np.arange(6))
    tensor[2:].copy_(tensor[:-2])
    assert tensor.tolist() == [0, 1, 0, 1, 2, 3]
    tensor.copy_(tensor[::-1])
    assert tensor.tolist() == [3, 2, 1, 0, 1, 0]


@pytest.mark.parametrize("method", ["copy_", "fill_"])
@pytest.mark.parametrize(
    ("value", "kind"), [(np.ones((5, 5)), ValueError), ("x", ValueError), ({}, TypeError)], ids=str
)
def test_rejected_copy_changes_nothing(method, value, kind) -> None:
    tensor = st.full((2, 3), 4.0)
    with pytest.raises(kind):
        getattr(tensor, method)(value)
    assert tensor.tolist() == [[4] * 3] * 2


@every_dtype
def test_fill_and_zero_of_every_dtype(dtype) -> None:
    array = some_array(dtype)
    tensor = st.asarray(array)
    element = array[-1, -1]
    assert tensor.fill_(element) is tensor
    expected = array.copy()
    expected[...] = element
    assert same_elements(tensor.numpy(), expected)
    assert tensor.zero_() is tensor
    assert same_elements(tensor.numpy(), np.zeros((3, 4), dtype)), "what zeros gives, also for strings"


def test_fill_writes_only_the_view() -> None:
    tensor = st.zeros((3, 4))
    tensor[1, ::2].fill_(5)
    tensor.T[3].fill_(st.asarray(6))
    assert tensor.tolist() == [[0, 0, 0, 6], [5, 0, 5, 6], [0, 0, 0, 6]]


def test_fill_of_empty_tensor_is_accepted() -> None:
    assert st.empty((0, 3)).fill_(1).zero_().copy_(5).shape == (0, 3)
