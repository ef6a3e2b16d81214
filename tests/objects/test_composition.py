"""Tensors made of other arrays, a range or a file: the result is NumPy's, in shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from tests.helpers.dtypes import every_dtype, same_elements, some_array
from tests.helpers.generators import outcome
from tests.helpers.live_resources import live_resources

pytestmark = pytest.mark.usefixtures("strategy")

FUNCTIONS = ["concatenate", "stack"]
PARTS = [np.arange(6, dtype="i2").reshape(2, 3), np.ones((2, 3), "f4"), np.zeros((3, 2), bool).T]


def check(tensor: st.Tensor, expected: np.ndarray) -> None:
    assert type(tensor) is st.Tensor
    assert tensor.is_shared()
    assert not tensor.readonly
    assert same_elements(tensor.numpy(), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_joined_arrays_equal_numpys(name, axis) -> None:
    ours, numpys = getattr(st, name), getattr(np, name)
    check(ours(PARTS, axis), numpys(PARTS, axis))
    check(ours([st.asarray(part) for part in PARTS], axis=axis), numpys(PARTS, axis))
    check(ours(([[1, 2]], [[3.5, 4]]), axis), numpys(([[1, 2]], [[3.5, 4]]), axis))


def test_arrays_are_flattened_without_an_axis() -> None:
    parts = [*PARTS, np.array(5, "i2")]
    check(st.concatenate(parts, None), np.concatenate(parts, None))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_out_is_written_and_returned(name) -> None:
    expected = getattr(np, name)(PARTS)
    for out in (st.empty(expected.shape, "f8"), np.empty(expected.shape)):
        assert getattr(st, name)(PARTS, out=out) is out
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("parts", [[], [[1], [[2]]], [[1, 2], [3]], [1, 2]], ids=str)
@pytest.mark.parametrize("axis", [0, 2, -3, None, 0.5])
def test_errors_are_numpys(name, parts, axis) -> None:
    before = live_resources()
    outcomes = [outcome(getattr(module, name), parts, axis) for module in (np, st)]
    if isinstance(outcomes[0], np.ndarray):
        check(outcomes[1], outcomes[0])
    else:
        assert outcomes[1] == outcomes[0]
    del outcomes
    assert live_resources() == before


@pytest.mark.parametrize("arguments", [(5,), (2, 7), (1, 2, 0.25), (5, 0, -2), (0,)], ids=str)
def test_arange(arguments) -> None:
    check(st.arange(*arguments), np.arange(*arguments))
    check(st.arange(*arguments, dtype="f2"), np.arange(*arguments, dtype="f2"))


@every_dtype
def test_saved_tensor_is_loaded_into_shared_memory(dtype, tmp_path) -> None:
    array = some_array(dtype)
    try:
        np.save(tmp_path / "array.npy", array)
        expected = np.load(tmp_path / "array.npy", allow_pickle=False)
    except (TypeError, ValueError):
        return  # NumPy's format does not have the dtype
    np.save(tmp_path / "array.npy", st.asarray(array))
    check(st.load(tmp_path / "array.npy"), expected)


def test_what_cannot_be_loaded_raises(tmp_path) -> None:
    before = live_resources()
    np.savez(tmp_path / "several.npz", a=[1], b=[2])
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array")
    for name in ("several.npz", "objects.npy", "text.npy"):
        with pytest.raises(ValueError, match=r"several arrays|bjects|pickle"):
            st.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        st.load(tmp_path / "absent.npy")
    assert live_resources() == before


def test_views_and_copies_with_numpys_names() -> None:
    array = np.arange(6).reshape(1, 2, 1, 3)
    tensor = st.asarray(array)
    for view, expected in (
        (tensor.squeeze(), array.squeeze()),
        (tensor.squeeze(0), array.squeeze(0)),
        (tensor.squeeze((0, 2)), array.squeeze((0, 2))),
        (tensor.swapaxes(1, -1), array.swapaxes(1, -1)),
        (tensor.ravel(), array.ravel()),
    ):
        check(view, expected)
        assert view.storage() is tensor.storage()
    for copy, expected in (
        (tensor.copy(), array.copy()),
        (tensor.T.flatten(), array.T.flatten()),
        (tensor.T.ravel(), array.T.ravel()),
    ):
        check(copy, expected)
        assert copy.storage() is not tensor.storage()
    for name, arguments in (("squeeze", (1,)), ("swapaxes", (0, 4))):
        expected = outcome(getattr(array, name), *arguments)
        assert expected[0] in {"ValueError", "AxisError"}
        assert outcome(getattr(tensor, name), *arguments) == expected
