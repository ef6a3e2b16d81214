"""Random views of random tensors equal NumPy's of the same array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import shmtensor as st
from tests.helpers.dtypes import same_elements
from tests.helpers.generators import basic_indices, generated, outcome, reshapes, tensors, view_of

pytestmark = pytest.mark.usefixtures("strategy")


def check(view: st.Tensor, expected: np.ndarray, tensor: st.Tensor) -> None:
    assert type(view) is st.Tensor
    assert view.storage() is tensor.storage()
    assert view.readonly == tensor.readonly
    assert same_elements(view.numpy(), expected)
    if expected.size:
        assert view.strides == expected.strides
        assert view.data_ptr() == expected.__array_interface__["data"][0]


@pytest.mark.thorough
@generated(300)
@given(some.data(), tensors())
def test_generated_indexing_matches_numpy(data, tensor) -> None:
    index = data.draw(basic_indices(tensor.shape))
    check(tensor[index], view_of(tensor.numpy(), index), tensor)


@pytest.mark.thorough
@generated(200)
@given(some.data(), tensors())
def test_repeated_indexing_matches_numpy(data, tensor) -> None:
    view, expected = tensor, tensor.numpy()
    for _ in range(4):
        index = data.draw(basic_indices(view.shape))
        view, expected = view[index], view_of(expected, index)
        check(view, expected, tensor)


@pytest.mark.thorough
@generated(200)
@given(some.data(), tensors(dtypes=some.just(np.dtype("i4"))))
def test_generated_assignment_matches_numpy(data, tensor) -> None:
    index = data.draw(basic_indices(tensor.shape))
    expected = tensor.numpy().copy()
    selected = view_of(expected, index)
    value = data.draw(some.sampled_from([7, np.full(selected.shape, 8), st.full(selected.shape, 9)]))
    if tensor.readonly:
        with pytest.raises(ValueError, match="read-only"):
            tensor[index] = value
        return
    tensor[index] = value
    selected[...] = getattr(value, "numpy", lambda: value)()
    if tensor.is_contiguous():  # otherwise elements may overlap
        assert same_elements(tensor.numpy(), expected)


parts = some.one_of(
    some.integers(-6, 6),
    some.sampled_from([np.int8(5), None, ..., True, 1.5, "x", 2**70, slice(0.5), slice(None, None, 0)]),
    some.slices(5),
)


@pytest.mark.thorough
@generated(300)
@given(
    some.one_of(parts, some.lists(parts, max_size=5).map(tuple)), tensors(dtypes=some.just(np.dtype("i4")))
)
def test_generated_errors_of_indexing_match_numpy(index, tensor) -> None:
    """Also indices that select a copy."""
    expected = outcome(tensor.numpy().__getitem__, index)
    result = outcome(tensor.__getitem__, index)
    if isinstance(expected, tuple):
        assert result == expected
    else:
        assert same_elements(np.asarray(result), np.asarray(expected))


@pytest.mark.thorough
@generated(200)
@given(some.data(), tensors())
def test_generated_reshape_matches_numpy(data, tensor) -> None:
    array = tensor.numpy()
    shape = data.draw(reshapes(tensor.size))
    expected = array.reshape(shape)
    result = tensor.reshape(shape)
    assert same_elements(result.numpy(), expected)
    if tensor.size:
        shares = np.shares_memory(expected, array)
        assert (result.storage() is tensor.storage()) == shares
        if shares:
            check(tensor.view(shape), expected, tensor)
        else:
            with pytest.raises(ValueError, match="needs a copy"):
                tensor.view(shape)


@pytest.mark.thorough
@generated(200)
@given(some.data(), tensors())
def test_generated_transpose_matches_numpy(data, tensor) -> None:
    axes = data.draw(some.permutations(range(tensor.ndim)))
    check(tensor.transpose(*axes), tensor.numpy().transpose(axes) if axes else tensor.numpy(), tensor)
    check(tensor.T, tensor.numpy().T, tensor)


@generated(100)
@given(tensors())
def test_generated_iteration_matches_numpy(tensor) -> None:
    if tensor.ndim == 0:
        with pytest.raises(TypeError, match=r"0-d|unsized"):
            iter(tensor)
        return
    views = list(tensor)
    assert len(views) == len(tensor) == tensor.shape[0]
    for i, view in enumerate(views):
        check(view, tensor.numpy()[i, ...], tensor)


@pytest.mark.thorough
@generated(200)
@given(tensors())
def test_tensor_attributes_match_its_array(tensor) -> None:
    array = tensor.numpy()
    for name in ("dtype", "shape", "ndim", "size", "itemsize", "nbytes"):
        assert getattr(tensor, name) == getattr(array, name)
    if tensor.size:
        assert tensor.strides == array.strides
        assert tensor.is_contiguous() == array.flags.c_contiguous
    assert tensor.data_ptr() == array.__array_interface__["data"][0]
    assert tensor.data_ptr() == tensor.storage().data_ptr() + tensor.storage_offset()
    assert tensor.readonly == (not array.flags.writeable)
