"""A tensor as a Python number, as a sequence, in f-strings and lists behaves like NumPy's arrays."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import shmtensor as st

pytestmark = pytest.mark.usefixtures("strategy")

CONVERSIONS = [bool, int, float, complex, operator.index]


def outcome(convert, value) -> tuple:
    try:
        result = convert(value)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    return type(result), result


@pytest.mark.parametrize("convert", CONVERSIONS, ids=lambda convert: convert.__name__)
@pytest.mark.parametrize("value", [0, 3, 2.5, 1j, True, np.uint8(7), "12", [], [4], [[5]], [1, 2]], ids=repr)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy's text, which differs between versions
@pytest.mark.filterwarnings(
    "ignore::numpy.exceptions.ComplexWarning" if hasattr(np, "exceptions") else "ignore:Cast"
)
def test_scalar_conversions_match_numpy(convert, value) -> None:
    assert outcome(convert, st.asarray(value)) == outcome(convert, np.asarray(value))


@pytest.mark.parametrize("value", [0, 2.5, "ab", [1, 2], [[1], [2]], [], np.zeros((0, 3))], ids=repr)
def test_tolist_returns_python_objects(value) -> None:
    result = st.asarray(value).tolist()
    assert result == np.asarray(value).tolist()
    assert not isinstance(result, (np.generic, np.ndarray, st.Tensor))


def test_item_returns_only_or_indexed_element() -> None:
    tensor = st.asarray(np.arange(6).reshape(2, 3))
    assert (tensor.item(4), tensor.item(1, 2), tensor.item((0, 1)), tensor[1, 1].item()) == (4, 5, 1, 4)
    assert type(tensor.item(0)) is int
    with pytest.raises(ValueError, match="size 1"):
        tensor.item()
    with pytest.raises(IndexError, match="6 is out of bounds"):
        tensor.item(6)


def test_length_and_iteration_match_numpy() -> None:
    tensor = st.asarray([[1, 2], [3, 4], [5, 6]])
    assert len(tensor) == 3
    assert [row.tolist() for row in tensor] == [[1, 2], [3, 4], [5, 6]]
    assert [row.tolist() for row in reversed(tensor)] == [[5, 6], [3, 4], [1, 2]]
    (a, b), *rest = tensor
    assert (a.item(), b.item(), len(rest)) == (1, 2, 2)
    for row in tensor:
        row.copy_(row * 10)
    assert tensor.tolist() == [[10, 20], [30, 40], [50, 60]], "the rows are views"


def test_zero_dimensional_tensor_has_no_length() -> None:
    for use in (len, iter, list):
        with pytest.raises(TypeError, match=r"0-d|unsized"):
            use(st.ones(()))


def test_contains_compares_elements() -> None:
    tensor = st.asarray([[1, 2], [3, 4]])
    assert 3 in tensor
    assert 5 not in tensor
    assert st.asarray(4) in tensor
    assert np.int8(1) in tensor


def test_scalar_tensor_is_formatted_in_f_string() -> None:
    tensor = st.asarray([1.2345, 7])
    assert f"{tensor[0]:.2f}" == "1.23"
    assert f"{st.asarray(255):x}" == "ff"
    assert f"{tensor}" == str(tensor)
    with pytest.raises(TypeError, match="format string"):
        f"{tensor:.2f}"


def test_tensor_is_not_hashable() -> None:
    assert st.Tensor.__hash__ is None
    with pytest.raises(TypeError, match="unhashable type: 'Tensor'"):
        {st.ones(2)}
