"""Indexing: views where NumPy has views, private copies where it has copies, the same errors."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.parameter_names import short_repr

pytestmark = pytest.mark.usefixtures("strategy")


class Two:
    def __index__(self) -> int:
        return 2


BASIC = [
    *(0, -1, np.int8(2), np.uint64(1), np.array(1), Two(), slice(None), slice(1, 3), slice(None, None, -1)),
    *(slice(3, None, -2), slice(10, 20), slice(2, 2), ..., None, (), (1, 2, 3), (-1, -1, -1), (0, ..., 0)),
    *(
        (..., 1),
        (1, ...),
        (None, 1, None),
        (slice(None), 1),
        (slice(None, None, -1), slice(1), slice(-2, None)),
    ),
    *((None, ..., None), (Two(), np.array(0)), (slice(np.int64(1), Two()), 1), (slice(0, 0), 1)),
]


@pytest.mark.parametrize("index", BASIC, ids=short_repr)
def test_basic_indices_return_tensor_views(index) -> None:
    array = np.arange(60.0).reshape(3, 4, 5)
    tensor = st.asarray(array)
    expected = array[index if not isinstance(index, tuple) else (*index,)]
    view = tensor[index]
    assert type(view) is st.Tensor
    assert view.storage() is tensor.storage()
    assert view.shape == np.shape(expected)
    np.testing.assert_array_equal(view.numpy(), expected)
    if view.size:
        view.fill_(-1)
        assert (tensor.numpy() == -1).sum() == view.size, "a write to the view is one to the tensor"


def test_integer_tensor_is_accepted_as_index() -> None:
    tensor = st.asarray([[1, 2], [3, 4]])
    assert tensor[st.asarray(1)].tolist() == [3, 4]
    assert tensor[st.asarray(0), st.asarray(1)].item() == 2
    assert tensor[st.asarray([1, 0])].tolist() == [[3, 4], [1, 2]]
    assert [10, 20, 30][st.asarray(2)] == 30


ADVANCED = [
    *([0, 2], np.array([1, 1]), [], np.array([], int), True, False, np.True_, [True, False, True]),
    *(
        ([0, 1], [2, 3]),
        (slice(None), [0]),
        (..., [1]),
        (1, [0, 1]),
        np.ones((3, 4), bool),
        np.eye(3, dtype=int),
    ),
    *(st.asarray([0, 2]), (st.asarray([0, 2]), 1)),
]


@pytest.mark.parametrize("index", ADVANCED, ids=short_repr)
def test_index_arrays_and_masks_return_private_copies(index) -> None:
    array = np.arange(60.0).reshape(3, 4, 5)
    tensor = st.asarray(array)
    copy = tensor[index]
    plain = (
        tuple(map(np.asarray, index))
        if isinstance(index, tuple) and isinstance(index[0], st.Tensor)
        else index
    )
    expected = array[np.asarray(index) if isinstance(index, st.Tensor) else plain]
    assert isinstance(copy, np.ndarray)
    np.testing.assert_array_equal(copy, expected)
    copy[...] = -1
    assert (tensor.numpy() >= 0).all()


def test_comparison_result_is_accepted_as_mask() -> None:
    tensor = st.asarray(np.arange(6))
    assert tensor[tensor > 3].tolist() == [4, 5]
    tensor[tensor > 3] = 0
    assert tensor.tolist() == [0, 1, 2, 3, 0, 0]


def test_field_access_returns_views() -> None:
    tensor = st.zeros(3, [("a", "i4"), ("b", "f8"), ("grid", "u1", (2, 2))])
    for name, shape in (("a", (3,)), ("b", (3,)), ("grid", (3, 2, 2))):
        field = tensor[name]
        assert type(field) is st.Tensor
        assert (field.storage(), field.shape) == (tensor.storage(), shape)
    tensor["b"][1] = 2.5
    tensor[["a", "b"]][2] = (7, 8)
    assert tensor[1].item()[:2] == (0, 2.5)
    assert tensor[2].item()[:2] == (7, 8)


@pytest.mark.parametrize(
    "index",
    [3, -4, (0, 4), (0, 0, 5), (0, 0, 0, 0), (..., ...), 1.5, "name", (0, "name"), [5], {"a": 1}, (None, 3)],
    ids=repr,
)
def test_indexing_errors_match_numpy(index) -> None:
    array = np.arange(60.0).reshape(3, 4, 5)
    tensor = st.asarray(array)
    for use in (lambda a: a[index], lambda a: a.__setitem__(index, 0)):
        with pytest.raises(Exception) as numpys:  # noqa: PT011  # whatever it is
            use(array)
        with pytest.raises(numpys.type) as ours:
            use(tensor)
        assert str(ours.value) == str(numpys.value)
    np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize(
    ("index", "value"),
    [
        *((0, 5), (slice(None), [1, 2, 3, 4]), ((..., 1), [1, 2, 3]), ([0, 2], 7), ((0, 0), np.int8(3))),
        *((None, 2), ((), 6), ((slice(None, None, -1), 2), [1, 2, 3])),
    ],
    ids=repr,
)
def test_assignment_matches_numpy(index, value) -> None:
    array = np.zeros((3, 4))
    tensor = st.zeros((3, 4))
    array[index] = value
    tensor[index] = value
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_tensor_can_be_assigned_from_itself() -> None:
    tensor = st.asarray(np.arange(6.0))
    tensor[1:] = tensor[:-1]
    assert tensor.tolist() == [0, 0, 1, 2, 3, 4]
    tensor[::-1] = tensor
    assert tensor.tolist() == [4, 3, 2, 1, 0, 0]
    with pytest.raises(ValueError, match=r"\(2,\).*\(6,\)"):
        tensor[...] = st.ones(2)
